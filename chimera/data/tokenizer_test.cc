#include "chimera/data/tokenizer.h"

#include <gtest/gtest.h>

#include "chimera/base/error.h"

namespace chimera {
namespace {

TEST(Tokenizer, BytesEncodesEveryByteAsItsValueAndBack) {
  const auto bytes = make_tokenizer("byte");
  std::string text;
  for (int repeat = 0; repeat < 600; ++repeat) {  // more than one piece
    for (int value = 0; value < 256; ++value) text.push_back(static_cast<char>(value));
  }
  const std::vector<Token> tokens = encode(*bytes, text);
  ASSERT_EQ(tokens.size(), text.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    ASSERT_EQ(tokens[i], static_cast<Token>(i % 256));
  }
  EXPECT_EQ(bytes->decode(tokens), text);
  EXPECT_EQ(bytes->vocabulary(), 256);
}

TEST(Tokenizer, AnEmptyTextHasNoTokens) {
  const auto bytes = make_tokenizer("byte");
  EXPECT_TRUE(encode(*bytes, "").empty());
  EXPECT_EQ(bytes->decode({}), "");
}

TEST(Tokenizer, DecodeRefusesATokenOutsideTheVocabulary) {
  const auto bytes = make_tokenizer("byte");
  for (const Token token : {Token{-1}, Token{256}}) {
    EXPECT_THROW((void)bytes->decode(std::vector<Token>{65, token}), Error);
  }
}

TEST(Tokenizer, AnUnknownNameIsRefusedWithTheNearestOne) {
  try {
    (void)make_tokenizer("bytes");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_STREQ(error.what(), "unknown tokenizer 'bytes'; known: byte (did you mean 'byte'?)");
  }
}

TEST(Tokenizer, EveryNamedOneCanBeMade) {
  for (const std::string_view name : tokenizer_names()) {
    EXPECT_EQ(make_tokenizer(name)->name(), name);
  }
}

}  // namespace
}  // namespace chimera
