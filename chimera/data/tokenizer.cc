#include "chimera/data/tokenizer.h"

#include <algorithm>
#include <array>

#include "chimera/base/error.h"
#include "chimera/base/text.h"

namespace chimera {
namespace {

// One token a byte: any text in any encoding, and nothing to train or download.
class ByteTokenizer final : public Tokenizer {
 public:
  [[nodiscard]] std::string_view name() const override { return "byte"; }
  [[nodiscard]] std::int64_t vocabulary() const override { return 256; }

  void encode(std::string_view text, const TokenSink& sink) const override {
    std::vector<Token> piece;
    for (std::size_t first = 0; first < text.size(); first += kPiece) {
      const std::string_view bytes = text.substr(first, kPiece);
      piece.resize(bytes.size());
      std::transform(bytes.begin(), bytes.end(), piece.begin(),
                     [](char byte) { return Token{static_cast<unsigned char>(byte)}; });
      sink(piece);
    }
  }

  [[nodiscard]] std::string decode(std::span<const Token> tokens) const override {
    std::string text;
    text.reserve(tokens.size());
    for (const Token token : tokens) {
      if (token < 0 || token >= vocabulary()) {
        throw Error(ErrorCode::kData, cat("cannot decode token ", token, ": the tokenizer '",
                                          name(), "' knows 0 to ", vocabulary() - 1));
      }
      text.push_back(static_cast<char>(token));
    }
    return text;
  }

 private:
  static constexpr std::size_t kPiece = 65536;
};

struct Entry {
  std::string_view name;
  std::unique_ptr<Tokenizer> (*make)();
};

constexpr std::array<Entry, 1> kTokenizers = {
    {{"byte", []() -> std::unique_ptr<Tokenizer> { return std::make_unique<ByteTokenizer>(); }}}};

}  // namespace

std::vector<Token> encode(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<Token> tokens;
  tokenizer.encode(text, [&](std::span<const Token> piece) {
    tokens.insert(tokens.end(), piece.begin(), piece.end());
  });
  return tokens;
}

std::vector<std::string_view> tokenizer_names() {
  std::vector<std::string_view> names;
  for (const Entry& entry : kTokenizers) names.push_back(entry.name);
  return names;
}

std::unique_ptr<Tokenizer> make_tokenizer(std::string_view name) {
  for (const Entry& entry : kTokenizers) {
    if (entry.name == name) return entry.make();
  }
  throw Error(ErrorCode::kUsage, unknown_word("tokenizer", name, tokenizer_names()));
}

}  // namespace chimera
