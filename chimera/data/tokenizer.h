// Tokenizers: text to integers and back. The table of those that exist is in tokenizer.cc; one more
// is a class there and a line in the table.
//
// A tokenizer is immutable and may be used by any thread. It knows no files and no windows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace chimera {

using Token = std::int64_t;

// Takes tokens in pieces, so that a long text is never held as one vector.
using TokenSink = std::function<void(std::span<const Token>)>;

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;

  // Every token is in [0, vocabulary()).
  [[nodiscard]] virtual std::int64_t vocabulary() const = 0;

  // Hands all tokens of `text`, in order, to `sink`.
  virtual void encode(std::string_view text, const TokenSink& sink) const = 0;

  // Throws Error (kData) for a token outside the vocabulary.
  [[nodiscard]] virtual std::string decode(std::span<const Token> tokens) const = 0;
};

// The tokens of a short text.
[[nodiscard]] std::vector<Token> encode(const Tokenizer& tokenizer, std::string_view text);

// The tokenizer of that name. Throws Error (kUsage) that lists the known ones.
[[nodiscard]] std::unique_ptr<Tokenizer> make_tokenizer(std::string_view name);

// The known names, for help texts and configuration checks.
[[nodiscard]] std::vector<std::string_view> tokenizer_names();

}  // namespace chimera
