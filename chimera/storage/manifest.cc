#include "chimera/storage/manifest.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "chimera/base/crc32c.h"
#include "chimera/base/error.h"
#include "chimera/base/text.h"

namespace chimera {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormatName = "chimera checkpoint";
constexpr std::string_view kBeforeChecksum = ",\n \"checksum\": \"";
constexpr std::string_view kAfterChecksum = "\"\n}\n";
constexpr std::size_t kChecksumDigits = 8;

Json json_of(const Manifest& manifest) {
  Json files = Json::object(), tensors = Json::object();
  for (const auto& [name, digest] : manifest.files) {
    files[name] = {{"bytes", digest.bytes}, {"crc32c", crc_text(digest.crc32c)}};
  }
  for (const auto& [name, place] : manifest.tensors) {
    tensors[name] = {
        {"file", place.file}, {"dtype", info(place.dtype).safetensors}, {"shape", place.shape}};
  }
  return {
      {"format", kFormatName},
      {"format_version", Manifest::kFormat},
      {"program", manifest.program},
      {"step", manifest.step},
      {"samples", manifest.samples},
      {"seed", manifest.seed},
      {"data", {{"fingerprint", manifest.data.fingerprint}, {"windows", manifest.data.windows}}},
      {"model", manifest.model},
      {"config", manifest.config},
      {"files", std::move(files)},
      {"tensors", std::move(tensors)}};
}

// Reads members of a manifest, with a clear error for what is not as it should be.
class ManifestReader {
 public:
  explicit ManifestReader(const std::string& source) : source_(source) {}

  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw Error(ErrorCode::kData, cat(source_, ": ", parts...));
  }

  const Json& member(const Json& object, const char* name) const {
    if (!object.is_object() || !object.contains(name)) fail("has no '", name, "'; it is damaged");
    return object[name];
  }

  template <class Value>
  Value get(const Json& object, const char* name) const {
    try {
      return member(object, name).get<Value>();
    } catch (const nlohmann::json::exception&) {
      fail("has '", name, "' of another type than expected; it is damaged");
    }
  }

  std::uint32_t crc(const Json& object, const char* name) const {
    const auto text = get<std::string>(object, name);
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (error != std::errc() || end != text.data() + text.size() || text.size() != 8) {
      fail("has ", name, " '", text, "', expected eight hexadecimal digits; it is damaged");
    }
    return value;
  }

  DType dtype(const Json& object, const char* name) const {
    const auto text = get<std::string>(object, name);
    for (std::size_t i = 0; i < kDTypes.size(); ++i) {
      if (text == kDTypes[i].safetensors) return static_cast<DType>(i);
    }
    fail("has a tensor of type '", text, "', which is not known; it is damaged");
  }

  // A name, not a path to somewhere else.
  std::string file_name(std::string name) const {
    if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos) {
      fail("names the file '", name, "', which is no file of the folder; it is damaged");
    }
    return name;
  }

  const std::string& source() const { return source_; }

 private:
  const std::string& source_;
};

// The text without its checksum, which must be right.
std::string checked_text(std::string_view text, const ManifestReader& reader) {
  const std::size_t tail = kBeforeChecksum.size() + kChecksumDigits + kAfterChecksum.size();
  if (text.size() < tail || !text.ends_with(kAfterChecksum) ||
      text.substr(text.size() - tail, kBeforeChecksum.size()) != kBeforeChecksum) {
    reader.fail("does not end with its checksum; it is cut off or damaged");
  }
  const std::string_view body = text.substr(0, text.size() - tail);
  const std::string_view stated =
      text.substr(text.size() - kAfterChecksum.size() - kChecksumDigits, kChecksumDigits);
  if (const std::string seen = crc_text(crc32c(body)); seen != stated) {
    reader.fail("has the checksum ", seen, ", but states ", stated, "; it is damaged");
  }
  return std::string(body) + "\n}";
}

void check_format(const Json& json, const ManifestReader& reader) {
  if (reader.get<std::string>(json, "format") != kFormatName) {
    reader.fail("is no manifest of a checkpoint");
  }
  const auto version = reader.get<std::int64_t>(json, "format_version");
  if (version != Manifest::kFormat) {
    reader.fail("is of format ", version, ", expected ", Manifest::kFormat,
                "; it is of another version of the program");
  }
}

}  // namespace

std::string print(const Manifest& manifest) {
  std::string body = json_of(manifest).dump(1);
  body.resize(body.size() - std::string_view("\n}").size());
  return cat(body, kBeforeChecksum, crc_text(crc32c(body)), kAfterChecksum);
}

Manifest parse_manifest(std::string_view text, const std::string& source) {
  const ManifestReader reader(source);
  const Json json = Json::parse(checked_text(text, reader), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) reader.fail("is no JSON object; it is damaged");
  check_format(json, reader);
  Manifest manifest{.program = reader.get<std::string>(json, "program"),
                    .step = reader.get<std::int64_t>(json, "step"),
                    .samples = reader.get<std::int64_t>(json, "samples"),
                    .seed = reader.get<std::uint64_t>(json, "seed"),
                    .data = {},
                    .model = reader.get<std::map<std::string, std::string>>(json, "model"),
                    .config = reader.get<std::string>(json, "config"),
                    .files = {},
                    .tensors = {}};
  const Json& data = reader.member(json, "data");
  manifest.data = {reader.get<std::int64_t>(data, "fingerprint"),
                   reader.get<std::int64_t>(data, "windows")};
  for (const auto& [name, file] : reader.member(json, "files").items()) {
    manifest.files[reader.file_name(name)] = {reader.get<std::uint64_t>(file, "bytes"),
                                              reader.crc(file, "crc32c")};
  }
  for (const auto& [name, tensor] : reader.member(json, "tensors").items()) {
    TensorPlace place{reader.get<std::string>(tensor, "file"), reader.dtype(tensor, "dtype"),
                      reader.get<std::vector<std::int64_t>>(tensor, "shape")};
    if (!manifest.files.contains(place.file)) {
      reader.fail("puts '", name, "' into '", place.file, "', which is not among its files");
    }
    manifest.tensors[name] = std::move(place);
  }
  return manifest;
}

}  // namespace chimera
