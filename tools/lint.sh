#!/usr/bin/env bash
# Formatting of all C++ files, then clang-tidy over those that are quick to read: torch-free, and no
# tests (torch's and GoogleTest's headers would take many minutes). Arguments: files to look at
# instead, tests included, as in `tools/lint.sh chimera/base/text_test.cc`; --format leaves out
# clang-tidy.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

clang_format=${CLANG_FORMAT:-clang-format}
clang_tidy=${CLANG_TIDY:-clang-tidy}
for tool in "$clang_format" "$clang_tidy" cmake; do
  command -v "$tool" >/dev/null || {
    echo "lint: error: '$tool' was not found; run 'tools/setup.sh lint'" >&2
    exit 1
  }
done

format_only=no
if [[ ${1:-} == --format ]]; then
  format_only=yes
  shift
fi
if (($#)); then
  files=("$@")
  skipped='^$'
else
  skipped='_test\.cc$'
  # Tracked or new, but not ignored; a file deleted and not yet committed is still listed.
  mapfile -t files < <(git ls-files --cached --others --exclude-standard -- '*.cc' '*.h' |
                         while read -r file; do [[ ! -f $file ]] || echo "$file"; done)
fi

echo "lint: clang-format, ${#files[@]} files"
"$clang_format" --dry-run -Werror "${files[@]}" ||
  { echo "lint: run '$clang_format -i' on the files above" >&2 && exit 1; }

# clang-format leaves comments as they are, too long ones too.
if grep -nHP '^(?=\s*//).{101,}' "${files[@]}"; then
  echo "lint: the comments above are longer than 100 columns" >&2
  exit 1
fi

[[ $format_only == no ]] || exit 0

cmake --preset lint >/dev/null
# clang-tidy sees headers through the sources that include them.
mapfile -t sources < <(printf '%s\n' "${files[@]}" | grep -v "$skipped" | while read -r file; do
  ! grep -qF "\"file\": \"$PWD/$file\"" build/lint/compile_commands.json || echo "$file"
done)
((${#sources[@]})) || exit 0
echo "lint: clang-tidy, ${#sources[@]} files"
printf '%s\0' "${sources[@]}" |
  xargs -0 -n 1 -P "$(nproc)" "$clang_tidy" --quiet -p build/lint 2> >(
    grep -vE '^[0-9]+ warnings? (generated|treated)|^Suppressed|^Use -' >&2
  )
