#include "chimera/model/safetensors.h"

#include <fcntl.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "chimera/base/check.h"
#include "chimera/base/error.h"
#include "chimera/base/text.h"
#include "chimera/model/tensor.h"

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

namespace chimera {
namespace {

using Json = nlohmann::json;
using Path = std::filesystem::path;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kLargestHeader = 100'000'000;  // the format's own limit
constexpr const char* kMetadataKey = "__metadata__";

[[noreturn]] void fail_io(const Path& path, const std::string& what) {
  const int code = errno;
  throw Error(ErrorCode::kIo, cat("cannot ", what, " '", path.string(), "': ", std::strerror(code),
                                  "; check the path, its permissions and the space left"));
}

[[noreturn]] void fail_data(const Path& path, const std::string& what) {
  throw Error(ErrorCode::kData, cat("weight file '", path.string(), "' ", what));
}

// An open file under a temporary name, which commit() turns into the real one.
class NewFile {
 public:
  explicit NewFile(const Path& path) : path_(path), temporary_(path) {
    temporary_ += cat(".", ::getpid(), ".partial");
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail_io(path_, "write");
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!committed_) ::unlink(temporary_.c_str());
  }

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail_io(path_, "write");
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
  }

  void commit() {
    if (::fsync(descriptor_) != 0) fail_io(path_, "write");
    if (::close(std::exchange(descriptor_, -1)) != 0) fail_io(path_, "write");
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_io(path_, "write");
    committed_ = true;
    sync_folder();
  }

 private:
  // So that the new name survives a crash too.
  void sync_folder() const {
    const Path folder = path_.has_parent_path() ? path_.parent_path() : Path(".");
    const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) fail_io(folder, "sync");
    const int result = ::fsync(descriptor);
    ::close(descriptor);
    if (result != 0) fail_io(folder, "sync");
  }

  Path path_;
  Path temporary_;
  int descriptor_ = -1;
  bool committed_ = false;
};

std::string header_text(const NamedTensors& tensors, const Metadata& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  std::uint64_t begin = 0;
  for (const auto& [name, tensor] : tensors) {
    CHECK(name != kMetadataKey);
    const std::uint64_t end = begin + tensor.nbytes();
    header[name] = {{"dtype", info(from_torch(tensor.scalar_type())).safetensors},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data is aligned
  return text;
}

std::uint64_t read_length(std::ifstream& file, const Path& path, std::uint64_t file_bytes) {
  std::uint64_t length = 0;
  if (file_bytes < kLengthBytes) {
    fail_data(path, cat("has ", file_bytes,
                        " bytes, expected at least 8 for the header's length; it is cut off or is "
                        "no safetensors file"));
  }
  file.read(reinterpret_cast<char*>(&length), sizeof length);
  if (!file) fail_io(path, "read");
  if (length > kLargestHeader || length > file_bytes - kLengthBytes) {
    fail_data(path,
              cat("says that its header has ", length, " bytes and has ", file_bytes - kLengthBytes,
                  " left; it is cut off or is no safetensors file"));
  }
  return length;
}

Json read_header(std::ifstream& file, const Path& path, std::uint64_t length) {
  std::string text(static_cast<std::size_t>(length), '\0');
  file.read(text.data(), static_cast<std::streamsize>(length));
  if (!file) fail_io(path, "read");
  // A header is three deep. What is deeper is damaged, and would exhaust the stack when copied.
  bool too_deep = false;
  const auto watch_depth = [&](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > 4;
    return !too_deep;
  };
  const Json header = Json::parse(text, watch_depth, /*allow_exceptions=*/false);
  if (too_deep) fail_data(path, "has a header nested too deeply; it is damaged");
  if (!header.is_object()) {
    fail_data(path, "has a header that is no JSON object; it is damaged or is no safetensors file");
  }
  return header;
}

Metadata parse_metadata(const Json& json, const Path& path) {
  Metadata metadata;
  if (!json.is_object()) fail_data(path, "has __metadata__ that is no JSON object");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) {
      fail_data(path, cat("has __metadata__ '", key, "' = ", value.dump(), ", expected a string"));
    }
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

DType parse_dtype(const Json& json, const std::string& name, const Path& path) {
  for (std::size_t i = 0; i < kDTypes.size(); ++i) {
    if (json == kDTypes[i].safetensors) return static_cast<DType>(i);
  }
  fail_data(path, cat("has tensor '", name, "' of type ", json.dump(),
                      ", expected one of F64, F32, BF16, I64, I32, U8, BOOL"));
}

// Bytes of a dense tensor; nothing where they do not fit 63 bits.
std::optional<std::uint64_t> dense_bytes(const SafetensorsFile::Entry& entry) {
  std::int64_t bytes = static_cast<std::int64_t>(info(entry.dtype).bytes);
  for (const std::int64_t extent : entry.shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  }
  return static_cast<std::uint64_t>(bytes);
}

bool all_counts(const Json& json) {
  return json.is_array() && std::all_of(json.begin(), json.end(), [](const Json& value) {
           return value.is_number_unsigned() &&
                  value.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max();
         });
}

// `data` is where the file's tensors begin.
SafetensorsFile::Entry parse_entry(const Json& json, const std::string& name, const Path& path,
                                   std::uint64_t data) {
  const auto field = [&](const char* key) {
    if (!json.is_object() || !json.contains(key)) {
      fail_data(path, cat("has tensor '", name, "' without '", key, "' in the header"));
    }
    return json[key];
  };
  SafetensorsFile::Entry entry;
  entry.dtype = parse_dtype(field("dtype"), name, path);
  const Json shape = field("shape");
  const Json offsets = field("data_offsets");
  if (!all_counts(shape) || !all_counts(offsets) || offsets.size() != 2 ||
      offsets[0] > offsets[1]) {
    fail_data(path, cat("has tensor '", name, "' with shape ", shape.dump(), " and data_offsets ",
                        offsets.dump(), ", expected counts, and two offsets that ascend"));
  }
  entry.shape = shape.get<std::vector<std::int64_t>>();
  entry.begin = data + offsets[0].get<std::uint64_t>();
  entry.bytes = offsets[1].get<std::uint64_t>() - offsets[0].get<std::uint64_t>();
  if (dense_bytes(entry) != entry.bytes) {
    fail_data(path, cat("has tensor '", name, "' of shape ", shape.dump(), " in ", entry.bytes,
                        " bytes, expected what its shape and type ", info(entry.dtype).safetensors,
                        " come to"));
  }
  return entry;
}

// The tensors must fill the data: without gaps, overlaps, or bytes left over or missing.
void check_cover(const std::map<std::string, SafetensorsFile::Entry>& entries, const Path& path,
                 std::uint64_t data, std::uint64_t file_bytes) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> spans;
  for (const auto& [name, entry] : entries) spans.emplace_back(entry.begin, entry.bytes);
  std::sort(spans.begin(), spans.end());
  std::uint64_t at = data;
  for (const auto& [begin, bytes] : spans) {
    if (begin != at) {
      fail_data(path,
                cat("has tensors that overlap or leave a gap at byte ", at, "; it is damaged"));
    }
    at += bytes;
  }
  if (at != file_bytes) {
    fail_data(path, cat("has ", file_bytes, " bytes, expected ", at,
                        " by its header; it is cut off or damaged"));
  }
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return cat("[", join(shape), "]");
}

bool is_floating(DType dtype) {
  return dtype == DType::kFloat64 || dtype == DType::kFloat32 || dtype == DType::kBFloat16;
}

void check_names(const SafetensorsFile& file, const std::vector<ParameterSpec>& expected,
                 const Path& path) {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const ParameterSpec& parameter : expected) shapes[parameter.name] = parameter.shape;
  for (const auto& [name, shape] : shapes) {
    const auto found = file.entries().find(name);
    if (found == file.entries().end()) {
      fail_data(path, cat("has no tensor '", name, "', expected one of shape ", shape_text(shape),
                          "; is it of another model?"));
    }
    const SafetensorsFile::Entry& entry = found->second;
    if (entry.shape != shape || !is_floating(entry.dtype)) {
      fail_data(path, cat("has tensor '", name, "' of shape ", shape_text(entry.shape),
                          " and type ", info(entry.dtype).name, ", expected shape ",
                          shape_text(shape), " of a floating type; is it of another model?"));
    }
  }
  for (const auto& [name, entry] : file.entries()) {
    if (!shapes.contains(name)) {
      fail_data(path,
                cat("has tensor '", name, "', which the model has not; is it of another model?"));
    }
  }
}

}  // namespace

void write_safetensors(const Path& path, const NamedTensors& tensors, const Metadata& metadata) {
  const std::string header = header_text(tensors, metadata);
  const std::uint64_t length = header.size();
  NewFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(header)));
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor dense = tensor.detach().to(at::kCPU).contiguous();
    file.write({static_cast<const std::byte*>(dense.const_data_ptr()), dense.nbytes()});
  }
  file.commit();
}

SafetensorsFile::SafetensorsFile(Path path) : path_(std::move(path)) {
  std::error_code code;
  const std::uint64_t file_bytes = std::filesystem::file_size(path_, code);
  errno = code.value();
  if (code) fail_io(path_, "read");
  std::ifstream file(path_, std::ios::binary);
  if (!file) fail_io(path_, "read");
  const std::uint64_t length = read_length(file, path_, file_bytes);
  const std::uint64_t data = kLengthBytes + length;
  const Json header = read_header(file, path_, length);
  for (const auto& [name, json] : header.items()) {
    if (name == kMetadataKey) {
      metadata_ = parse_metadata(json, path_);
    } else {
      entries_.emplace(name, parse_entry(json, name, path_, data));
    }
  }
  check_cover(entries_, path_, data, file_bytes);
}

at::Tensor SafetensorsFile::read(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    fail_data(path_, cat("has no tensor '", name, "', expected one of that name"));
  }
  const Entry& entry = found->second;
  at::Tensor tensor = at::empty(entry.shape, to_torch(entry.dtype));
  std::ifstream file(path_, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(entry.begin));
  file.read(static_cast<char*>(tensor.data_ptr()), static_cast<std::streamsize>(entry.bytes));
  if (!file) fail_io(path_, "read");
  return tensor;
}

void load_weights(const Path& path, const ModelSpec& spec, ParameterStore& store) {
  const SafetensorsFile file(path);
  check_names(file, model_parameters(spec), path);
  NamedTensors read;
  for (const auto& [name, parameter] : store.parameters()) read[name] = file.read(name);
  const at::NoGradGuard no_grad;
  for (const auto& [name, parameter] : store.parameters()) {
    at::Tensor value = parameter.value;
    value.copy_(read.at(name));
  }
  store.values_changed();
}

}  // namespace chimera
