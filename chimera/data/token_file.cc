#include "chimera/data/token_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "chimera/base/check.h"
#include "chimera/base/error.h"
#include "chimera/base/text.h"

namespace chimera {
namespace {

// The first byte is in no text of ASCII or UTF-8, the last one shows a file that was sent as text.
constexpr std::array<unsigned char, 8> kMagic = {0x89, 'C', 'H', 'M', 'T', 'O', 'K', '\n'};
constexpr std::uint64_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 32;
constexpr std::size_t kFlushBytes = 1 << 18;

std::uint64_t read_little(const unsigned char* bytes, int width) {
  std::uint64_t value = 0;
  for (int i = width - 1; i >= 0; --i) value = value << 8 | bytes[i];
  return value;
}

void append_little(std::vector<unsigned char>& bytes, std::uint64_t value, int width) {
  for (int i = 0; i < width; ++i) bytes.push_back(static_cast<unsigned char>(value >> (8 * i)));
}

bool has_magic(std::span<const unsigned char> bytes) {
  return bytes.size() >= kMagic.size() && std::equal(kMagic.begin(), kMagic.end(), bytes.begin());
}

constexpr std::uint64_t largest_vocabulary(int width) { return std::uint64_t{1} << (8 * width); }

int width_for(std::int64_t vocabulary) {
  for (const int width : {1, 2, 4}) {
    if (vocabulary >= 1 && static_cast<std::uint64_t>(vocabulary) <= largest_vocabulary(width)) {
      return width;
    }
  }
  throw Error(ErrorCode::kUsage, cat("a vocabulary of ", vocabulary,
                                     " cannot be stored; expected 1 to ", largest_vocabulary(4)));
}

std::vector<unsigned char> header(int width, std::int64_t vocabulary, std::int64_t count) {
  std::vector<unsigned char> bytes(kMagic.begin(), kMagic.end());
  append_little(bytes, kVersion, 4);
  append_little(bytes, static_cast<std::uint64_t>(width), 4);
  append_little(bytes, static_cast<std::uint64_t>(vocabulary), 8);
  append_little(bytes, static_cast<std::uint64_t>(count), 8);
  return bytes;
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::kData, cat("the token file '", path, "' ", why));
}

[[noreturn]] void refuse_token(const std::string& path, Token token, std::int64_t position,
                               std::int64_t vocabulary) {
  throw Error(ErrorCode::kData, cat("token ", token, " at position ", position, " of '", path,
                                    "' is outside the vocabulary of ", vocabulary,
                                    "; expected 0 to ", vocabulary - 1));
}

// A temporary name in the folder of `path`, so that the last rename stays within a file system.
Descriptor make_partial(std::string& partial) {
  Descriptor file(::mkostemp(partial.data(), O_CLOEXEC));
  if (file.number() < 0) throw_system_error("create", partial);
  return file;
}

}  // namespace

TokenFile TokenFile::open(const std::string& path) {
  return TokenFile(MappedFile::open(path, "token file"));
}

TokenFile::TokenFile(MappedFile file) : file_(std::move(file)) {
  const std::span<const unsigned char> bytes = file_.bytes();
  if (!has_magic(bytes)) refuse(path(), "is not one: its first 8 bytes are those of another kind");
  if (bytes.size() < kHeaderBytes) {
    refuse(path(), cat("is cut short: ", bytes.size(), " bytes, less than its header of ",
                       kHeaderBytes, "; write it again"));
  }
  const std::uint64_t version = read_little(&bytes[8], 4);
  const std::uint64_t width = read_little(&bytes[12], 4);
  const std::uint64_t vocabulary = read_little(&bytes[16], 8);
  const std::uint64_t count = read_little(&bytes[24], 8);
  if (version != kVersion) {
    refuse(path(), cat("has version ", version, "; this program reads version ", kVersion));
  }
  if (width != 1 && width != 2 && width != 4) {
    refuse(path(), cat("has tokens of ", width, " bytes; expected 1, 2 or 4"));
  }
  width_ = static_cast<int>(width);
  if (vocabulary < 1 || vocabulary > largest_vocabulary(width_)) {
    refuse(path(), cat("has a vocabulary of ", vocabulary, "; tokens of ", width,
                       " bytes allow 1 to ", largest_vocabulary(width_)));
  }
  const std::uint64_t held = (bytes.size() - kHeaderBytes) / width;
  if (count != held || (bytes.size() - kHeaderBytes) % width != 0) {
    refuse(path(), cat(count > held ? "is cut short" : "is longer than it says",
                       ": its header says ", count, " tokens of ", width, " bytes, after it stand ",
                       bytes.size() - kHeaderBytes, " bytes; write it again"));
  }
  if (count == 0) refuse(path(), "holds no token");
  vocabulary_ = static_cast<std::int64_t>(vocabulary);
  count_ = static_cast<std::int64_t>(count);
}

void TokenFile::read(std::int64_t first, std::span<Token> out) const {
  const auto wanted = static_cast<std::int64_t>(out.size());
  CHECK(first >= 0 && wanted <= count_ && first <= count_ - wanted);
  const unsigned char* bytes =
      file_.bytes().data() + kHeaderBytes + static_cast<std::size_t>(first * width_);
  for (std::size_t i = 0; i < out.size(); ++i, bytes += width_) {
    out[i] = static_cast<Token>(read_little(bytes, width_));
    if (out[i] >= vocabulary_) {
      refuse_token(path(), out[i], first + static_cast<std::int64_t>(i), vocabulary_);
    }
  }
}

TokenWriter::TokenWriter(std::string path, std::int64_t vocabulary)
    : path_(std::move(path)), vocabulary_(vocabulary), width_(width_for(vocabulary)) {
  std::string partial = path_ + ".XXXXXX";
  file_ = make_partial(partial);
  partial_ = std::move(partial);
  pending_ = header(width_, vocabulary_, 0);
}

TokenWriter::TokenWriter(Descriptor file, std::string path, std::string partial,
                         std::int64_t vocabulary)
    : file_(std::move(file)),
      path_(std::move(path)),
      partial_(std::move(partial)),
      vocabulary_(vocabulary),
      width_(width_for(vocabulary)),
      pending_(header(width_, vocabulary, 0)) {}

TokenWriter TokenWriter::unnamed(std::string label, std::int64_t vocabulary) {
  return TokenWriter(make_unnamed_file(), std::move(label), "", vocabulary);
}

TokenWriter::~TokenWriter() {
  if (!partial_.empty()) ::unlink(partial_.c_str());
}

void TokenWriter::append(std::span<const Token> tokens) {
  for (const Token token : tokens) {
    if (token < 0 || token >= vocabulary_) refuse_token(path_, token, count_, vocabulary_);
    append_little(pending_, static_cast<std::uint64_t>(token), width_);
    ++count_;
    if (pending_.size() >= kFlushBytes) flush();
  }
}

void TokenWriter::flush() {
  write_all(file_, pending_, path_);
  pending_.clear();
}

TokenFile TokenWriter::finish() {
  if (count_ == 0) {
    throw Error(ErrorCode::kData, cat("no token came for '", path_, "'; expected at least one"));
  }
  flush();
  if (::lseek(file_.number(), 0, SEEK_SET) != 0) throw_system_error("seek in", path_);
  write_all(file_, header(width_, vocabulary_, count_), path_);
  if (!partial_.empty()) {
    // mkostemp leaves it for its owner alone.
    if (::fchmod(file_.number(), 0644) != 0) throw_system_error("set the mode of", path_);
    if (::fsync(file_.number()) != 0) throw_system_error("write", path_);
    if (std::rename(partial_.c_str(), path_.c_str()) != 0) throw_system_error("create", path_);
    partial_.clear();
  }
  return TokenFile(MappedFile(file_, path_, "token file"));
}

TokenFile open_text(const std::string& path, const Tokenizer& tokenizer) {
  MappedFile text = MappedFile::open(path, "text");
  if (has_magic(text.bytes())) return TokenFile(std::move(text));
  TokenWriter writer = TokenWriter::unnamed(path, tokenizer.vocabulary());
  tokenizer.encode(text.text(), [&](std::span<const Token> tokens) { writer.append(tokens); });
  return writer.finish();
}

std::int64_t text_vocabulary(const std::string& path, const Tokenizer& tokenizer) {
  if (!std::filesystem::exists(path)) return tokenizer.vocabulary();
  MappedFile text = MappedFile::open(path, "text");
  return has_magic(text.bytes()) ? TokenFile(std::move(text)).vocabulary() : tokenizer.vocabulary();
}

}  // namespace chimera
