#!/usr/bin/env bash
# Installs what Chimera is built with, on Debian 12, from git, python3 and root (or sudo) alone.
# What is there already is left as it is; a second run does nothing. See --help.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: tools/setup.sh [--no-packages] [all|core|mpi|lint]

  all   (default) Debian packages, torch in .venv, the text of the demo in data/
  core  only the Debian packages of the part that needs neither torch nor MPI
  mpi   as core, and an MPI, and hwloc, which knows the cores of a machine
  lint  as mpi, and clang-format and clang-tidy

  --no-packages  install no Debian packages: you have their like from elsewhere

Which torch (2.4 or newer) is used, the first of:
  1. CHIMERA_TORCH_FROM, if set: a folder with share/cmake/Torch (an unpacked libtorch, or the
     torch folder of a Python installation), a folder of wheels, or the URL of a package index
  2. one in the environment variable CMAKE_PREFIX_PATH
  3. one in .venv
  4. one that python3 can import (then .venv sees the packages beside it)
  5. torch 2.13.0, installed into .venv from pip's default index
Its folder is written to .venv/torch-prefix, where cmake/torch.cmake reads it, and stays chosen
until CHIMERA_TORCH_FROM names another or .venv is removed.
TEXT
}

torch_version=2.13.0
marker=.venv/torch-prefix     # the folder of the torch in use
source_note=.venv/torch-from  # the wheel folder or index it was installed from, if one was named
text=data/bible.txt

core_packages=(g++ make cmake ninja-build ccache libgtest-dev libgmock-dev librapidcheck-dev
               libcli11-dev libtomlplusplus-dev nlohmann-json3-dev)
mpi_packages=(libopenmpi-dev openmpi-bin libhwloc-dev)
lint_packages=(clang-format clang-tidy)
all_packages=(bible-kjv iproute2)  # ip: the hosts of tests/hosts are network namespaces

say() { echo "setup: $*"; }
die() {
  echo "setup: error: $*" >&2
  exit 1
}

# ---- Debian packages -------------------------------------------------------------------------

missing_packages() {
  local installed package
  # dpkg-query fails when it knows nothing of one of them; what it prints counts.
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true)
  for package in "$@"; do
    grep -qxF "installed $package" <<<"$installed" || echo "$package"
  done
}

as_root() {
  if [[ $(id -u) == 0 ]]; then
    env DEBIAN_FRONTEND=noninteractive "$@"
  else
    sudo env DEBIAN_FRONTEND=noninteractive "$@"
  fi
}

install_packages() {
  [[ $with_packages == yes ]] || return 0
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    die "no apt-get here: this script knows Debian 12 only; install the like of '$*'" \
        "yourself, then run it with --no-packages"
  fi
  local missing
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  if [[ $(id -u) != 0 ]] && ! command -v sudo >/dev/null; then
    die "must be root, or have sudo, to run 'apt-get install ${missing[*]}'"
  fi
  say "installing Debian packages: ${missing[*]}"
  local log
  log=$(mktemp)
  if ! { as_root apt-get update && as_root apt-get -o DPkg::Lock::Timeout=120 install --yes \
           --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    die "apt-get could not install ${missing[*]}; is there a network? (its output: $log)"
  fi
  rm -f "$log"
}

# ---- torch -----------------------------------------------------------------------------------

# Prints nothing if the folder's torch will do, else why it will not.
why_unusable() {
  local config=$1/share/cmake/Torch/TorchConfig.cmake version
  if [[ ! -f $config ]]; then
    echo "it has no share/cmake/Torch/TorchConfig.cmake"
    return
  fi
  version=$(sed -n 's/.*PACKAGE_VERSION "\([0-9.]*\).*/\1/p' \
              "$1/share/cmake/Torch/TorchConfigVersion.cmake" | head -1)
  if [[ $(printf '%s\n' 2.4 "$version" | sort -V | head -1) != 2.4 ]]; then
    echo "its version is ${version:-unknown}, older than 2.4"
  elif grep -q 'GLIBCXX_USE_CXX11_ABI=0' "$config"; then
    echo "it is built with the old C++ ABI (_GLIBCXX_USE_CXX11_ABI=0)"
  fi
}

# The folder of the torch a Python would import, found without importing it; nothing if none.
torch_folder_of() {
  "$1" -c 'import importlib.util as u; s = u.find_spec("torch"); s and s.origin and print(s.origin)' \
    2>/dev/null | sed 's,/__init__\.py$,,' || true
}

use_torch() {
  mkdir -p .venv
  # Written only when it changes: the build looks at its time.
  [[ -f $marker && $(<"$marker") == "$1" ]] || {
    echo "$1" >"$marker"
    say "using the torch in $1"
  }
}

make_venv() {
  say "making .venv"
  python3 -m venv .venv || die "'python3 -m venv .venv' failed with $(command -v python3)"
}

# A .venv that also sees the packages that lie beside the torch in a folder.
make_venv_beside() {
  make_venv
  .venv/bin/python -c 'import pathlib, sys, sysconfig
pathlib.Path(sysconfig.get_path("purelib"), "torch.pth").write_text(sys.argv[1] + "\n")' \
    "$(dirname "$1")"
}

pip_install() {
  .venv/bin/python -m pip install --quiet --disable-pip-version-check "$@" ||
    die "pip could not install '${*: -1}'; without a network, set CHIMERA_TORCH_FROM to a folder" \
        "with torch or its wheels (see --help)"
}

# The comparisons in bench/ and the fixtures of the tests are Python and want numpy too.
install_numpy() {
  .venv/bin/python -c 'import importlib.util as u, sys; sys.exit(u.find_spec("numpy") is None)' ||
    { say "installing numpy into .venv" && pip_install "$@" numpy; }
}

# install_torch WHAT [pip options]: into .venv.
install_torch() {
  local what=$1
  shift
  if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then make_venv; fi
  say "installing $what into .venv (some hundred megabytes)"
  pip_install "$@" "$what"
  install_numpy "$@"
  local folder reason
  folder=$(torch_folder_of .venv/bin/python)
  reason=$(why_unusable "$folder")
  [[ -z $reason ]] || die "the torch that pip installed cannot be used: $reason"
  use_torch "$folder"
}

setup_named_torch() {
  local from=$1 reason
  if [[ $from == *://* ]]; then
    [[ -f $source_note && -f $marker && $(<"$source_note") == "$from" ]] && return
    install_torch "torch>=2.4" --index-url "$from"
    echo "$from" >"$source_note"
  elif [[ -d $from/share/cmake/Torch ]]; then
    reason=$(why_unusable "$from")
    [[ -z $reason ]] || die "the torch in CHIMERA_TORCH_FROM=$from cannot be used: $reason"
    use_torch "$(cd "$from" && pwd)"
  elif compgen -G "$from/*.whl" >/dev/null; then
    [[ -f $source_note && -f $marker && $(<"$source_note") == "$from" ]] && return
    install_torch "torch>=2.4" --no-index --find-links "$from"
    echo "$from" >"$source_note"
  else
    die "CHIMERA_TORCH_FROM=$from is neither the URL of a package index nor a folder with" \
        "share/cmake/Torch or wheels (*.whl)"
  fi
}

setup_torch() {
  if [[ -n ${CHIMERA_TORCH_FROM:-} ]]; then
    setup_named_torch "$CHIMERA_TORCH_FROM"
    return
  fi
  if [[ -f $marker && -z $(why_unusable "$(<"$marker")") ]]; then return; fi

  local folder reason prefixes=()
  IFS=: read -ra prefixes <<<"${CMAKE_PREFIX_PATH:-}"
  for folder in "${prefixes[@]}"; do
    folder=${folder%/share/cmake}  # torch.utils.cmake_prefix_path ends so
    [[ -d $folder/share/cmake/Torch ]] || continue
    reason=$(why_unusable "$folder")
    [[ -n $reason ]] || { use_torch "$folder" && return; }
    say "not using the torch in $folder: $reason"
  done

  local python
  for python in .venv/bin/python python3; do
    command -v "$python" >/dev/null || continue
    folder=$(torch_folder_of "$python")
    [[ -n $folder ]] || continue
    reason=$(why_unusable "$folder")
    if [[ -z $reason ]]; then
      [[ $python != python3 ]] || make_venv_beside "$folder"
      install_numpy
      use_torch "$folder"
      return
    fi
    say "not using the torch in $folder: $reason"
  done
  install_torch "torch==$torch_version"
}

# ---- the text of the demo --------------------------------------------------------------------

setup_text() {
  [[ ! -s $text ]] || return 0
  command -v bible >/dev/null ||
    die "the program 'bible' (Debian package bible-kjv), which prints the demo's text, is missing"
  say "writing $text, the King James Bible"
  mkdir -p "$(dirname "$text")"
  # Under another name first, so that an interrupted run leaves no half of it.
  bible -l 100000 gen1:1-rev22:21 >"$text.new" || die "'bible' failed"
  [[ -s $text.new ]] || die "'bible -l 100000 gen1:1-rev22:21' printed nothing"
  mv "$text.new" "$text"
}

# ---- main ------------------------------------------------------------------------------------

with_packages=yes
what=all
for argument in "$@"; do
  case $argument in
    --no-packages) with_packages=no ;;
    all | core | mpi | lint) what=$argument ;;
    -h | --help) usage && exit ;;
    *) die "unknown argument '$argument'; see --help" ;;
  esac
done

case $what in
  core) install_packages "${core_packages[@]}" ;;
  mpi) install_packages "${core_packages[@]}" "${mpi_packages[@]}" ;;
  lint) install_packages "${core_packages[@]}" "${mpi_packages[@]}" "${lint_packages[@]}" ;;
  all)
    command -v python3 >/dev/null || die "python3 is missing; run 'apt-get install python3'"
    # Debian's python3 makes no virtual environments without a package more.
    [[ -f $marker ]] || python3 -c 'import ensurepip' 2>/dev/null || all_packages+=(python3-venv)
    install_packages "${core_packages[@]}" "${mpi_packages[@]}" "${all_packages[@]}"
    setup_torch
    setup_text
    ;;
esac
