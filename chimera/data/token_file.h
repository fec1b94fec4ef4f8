// Token files: a header and one unsigned little-endian integer a token, read through a mapping, so
// that a text of any length costs no memory but what is being read. The format is written in
// docs/formats.md.
//
// Reading is strict: a file that is foreign, cut short, too long or of a later version is an Error
// (kData) that says which, and a token outside the vocabulary is one when it is read.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "chimera/data/file.h"
#include "chimera/data/tokenizer.h"

namespace chimera {

// An open token file; immutable, any thread may read.
class TokenFile {
 public:
  [[nodiscard]] static TokenFile open(const std::string& path);

  explicit TokenFile(MappedFile file);

  [[nodiscard]] const std::string& path() const { return file_.path(); }
  [[nodiscard]] std::int64_t vocabulary() const { return vocabulary_; }
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] int width() const { return width_; }  // bytes a token

  // Tokens [first, first + out.size()), which must lie in the file. Throws Error (kData) for a
  // token outside the vocabulary.
  void read(std::int64_t first, std::span<Token> out) const;

 private:
  MappedFile file_;
  std::int64_t vocabulary_ = 0;
  std::int64_t count_ = 0;
  int width_ = 0;
};

// Writes a token file. Until finish() the tokens lie in a file of another name beside `path`, so
// `path` is never half-written: it is untouched on any failure, and the other file is removed.
class TokenWriter {
 public:
  TokenWriter(std::string path, std::int64_t vocabulary);

  // A token file without a name, gone with its last mapping; `label` stands for it in messages.
  [[nodiscard]] static TokenWriter unnamed(std::string label, std::int64_t vocabulary);

  TokenWriter(const TokenWriter&) = delete;
  TokenWriter& operator=(const TokenWriter&) = delete;
  ~TokenWriter();

  // Throws Error (kData) for a token outside the vocabulary, Error (kIo) if the disk is full.
  void append(std::span<const Token> tokens);

  // Completes the file, gives it its name, and opens it. Call once; at least one token.
  [[nodiscard]] TokenFile finish();

 private:
  TokenWriter(Descriptor file, std::string path, std::string partial, std::int64_t vocabulary);
  void flush();

  Descriptor file_;
  std::string path_;
  std::string partial_;  // the name until finish(); empty where there is none
  std::int64_t vocabulary_;
  int width_;
  std::int64_t count_ = 0;
  std::vector<unsigned char> pending_;
};

// The tokens of a text file, through an unnamed temporary file: nothing is left on disk. A path
// that is a token file already (its first bytes say so) is opened as it is, and its own vocabulary
// holds. Missing, empty and unreadable files, folders and pipes are each an Error.
[[nodiscard]] TokenFile open_text(const std::string& path, const Tokenizer& tokenizer);

// The vocabulary of what open_text gives, without making tokens of a text; the tokenizer's where
// there is no such file, as on a machine that plans for another. Throws as open_text does.
[[nodiscard]] std::int64_t text_vocabulary(const std::string& path, const Tokenizer& tokenizer);

}  // namespace chimera
