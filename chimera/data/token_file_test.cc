#include "chimera/data/token_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "chimera/base/error.h"
#include "chimera/base/text.h"

namespace chimera {
namespace {

namespace fs = std::filesystem;

// A folder of its own for each test, removed at its end.
class TokenFileTest : public ::testing::Test {
 protected:
  TokenFileTest() {
    std::string name = (fs::temp_directory_path() / "token-file-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "cannot create " << name;
    folder_ = name;
  }
  ~TokenFileTest() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_ / name; }

  std::string put(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

  [[nodiscard]] static std::string content(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  // A token file of 3 tokens below 300.
  std::string put_small(const std::string& name) const {
    TokenWriter writer(path(name), 300);
    writer.append(std::vector<Token>{0, 256, 299});
    (void)writer.finish();
    return path(name);
  }

  fs::path folder_;
};

std::vector<Token> all_tokens(const TokenFile& file) {
  std::vector<Token> tokens(static_cast<std::size_t>(file.count()));
  file.read(0, tokens);
  return tokens;
}

template <class Call>
void expect_error(ErrorCode code, const std::string& part, const Call& call) {
  try {
    call();
    ADD_FAILURE() << "no error; expected one with '" << part << "'";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST_F(TokenFileTest, WhatIsWrittenIsReadInEveryWidth) {
  struct Case {
    std::int64_t vocabulary;
    int width;
  };
  for (const Case& c : {Case{1, 1}, Case{2, 1}, Case{256, 1}, Case{257, 2}, Case{65536, 2},
                        Case{65537, 4}, Case{std::int64_t{1} << 32, 4}}) {
    std::vector<Token> tokens;
    for (std::int64_t i = 0; i < 300'000; ++i) tokens.push_back(i * 7919 % c.vocabulary);
    tokens.back() = c.vocabulary - 1;
    TokenWriter writer(path("tokens"), c.vocabulary);
    writer.append(std::span(tokens).first(1));
    writer.append(std::span(tokens).subspan(1));
    EXPECT_EQ(all_tokens(writer.finish()), tokens);

    const TokenFile file = TokenFile::open(path("tokens"));
    EXPECT_EQ(file.width(), c.width);
    EXPECT_EQ(file.vocabulary(), c.vocabulary);
    EXPECT_EQ(all_tokens(file), tokens);
    EXPECT_EQ(fs::file_size(path("tokens")), 32 + tokens.size() * static_cast<unsigned>(c.width));
  }
}

TEST_F(TokenFileTest, TheBytesAreThoseOfTheDocumentedFormat) {
  const std::string expected(
      "\x89"
      "CHMTOK\n"
      "\1\0\0\0"
      "\2\0\0\0"
      "\x2c\1\0\0\0\0\0\0"
      "\3\0\0\0\0\0\0\0"
      "\0\0\0\1\x2b\1",
      38);
  EXPECT_EQ(content(put_small("tokens")), expected);
}

TEST_F(TokenFileTest, PartsAreReadWithoutTheRest) {
  const TokenFile file = TokenFile::open(put_small("tokens"));
  std::vector<Token> part(2);
  file.read(1, part);
  EXPECT_EQ(part, (std::vector<Token>{256, 299}));
  file.read(3, std::span<Token>());
}

TEST_F(TokenFileTest, ReadingPastTheEndIsABug) {
  const TokenFile file = TokenFile::open(put_small("tokens"));
  std::vector<Token> part(2);
  EXPECT_DEATH(file.read(2, part), "CHECK failed");
  EXPECT_DEATH(file.read(-1, part), "CHECK failed");
}

TEST_F(TokenFileTest, AFileCutAtAnyLengthIsRefused) {
  const std::string whole = content(put_small("tokens"));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::string file = put("cut", whole.substr(0, length));
    const std::string part = length == 0 ? "is empty" : length < 8 ? "is not one" : "is cut short";
    expect_error(ErrorCode::kData, part, [&] { (void)TokenFile::open(file); });
  }
}

TEST_F(TokenFileTest, AHeaderThatIsWrongIsRefused) {
  struct Case {
    std::size_t at;
    char value;
    std::string part;
  };
  const std::string whole = content(put_small("tokens"));
  for (const Case& c : {Case{0, 'X', "is not one"}, Case{8, 2, "has version 2"},
                        Case{12, 3, "tokens of 3 bytes"}, Case{12, 0, "tokens of 0 bytes"},
                        Case{12, 1, "vocabulary of 300"}, Case{18, 1, "vocabulary of 65836"},
                        Case{23, -1, "has a vocabulary of"}, Case{24, 4, "is cut short"},
                        Case{31, -1, "is cut short"}, Case{24, 2, "is longer than it says"}}) {
    std::string changed = whole;
    changed[c.at] = c.value;
    expect_error(ErrorCode::kData, c.part, [&] { (void)TokenFile::open(put("changed", changed)); });
  }
  expect_error(ErrorCode::kData, "is longer than it says",
               [&] { (void)TokenFile::open(put("longer", whole + "x")); });
  std::string none = whole.substr(0, 32);
  none[24] = 0;
  expect_error(ErrorCode::kData, "holds no token",
               [&] { (void)TokenFile::open(put("none", none)); });
}

TEST_F(TokenFileTest, ATokenOutsideTheVocabularyIsNamedWhenRead) {
  std::string changed = content(put_small("tokens"));
  changed[36] = 0x2c;  // the third token becomes 300
  const TokenFile file = TokenFile::open(put("changed", changed));
  std::vector<Token> part(1);
  file.read(0, part);
  expect_error(ErrorCode::kData, "token 300 at position 2", [&] { file.read(2, part); });
}

TEST_F(TokenFileTest, TheWriterRefusesATokenOutsideTheVocabularyAndLeavesNoFile) {
  for (const Token token : {Token{-1}, Token{300}}) {
    expect_error(ErrorCode::kData, "outside the vocabulary of 300", [&] {
      TokenWriter writer(path("tokens"), 300);
      writer.append(std::vector<Token>{1, token});
    });
  }
  EXPECT_EQ(files(), 0U);
}

TEST_F(TokenFileTest, TheWriterLeavesAnOldFileAloneUntilItIsDone) {
  const std::string before = content(put_small("tokens"));
  {
    TokenWriter writer(path("tokens"), 300);
    writer.append(std::vector<Token>{1});
  }
  EXPECT_EQ(content(path("tokens")), before);
  expect_error(ErrorCode::kData, "no token came", [&] {
    TokenWriter writer(path("tokens"), 300);
    (void)writer.finish();
  });
  EXPECT_EQ(content(path("tokens")), before);
  EXPECT_EQ(files(), 1U);
}

TEST_F(TokenFileTest, TheWriterNamesAFolderThatIsNotThere) {
  expect_error(ErrorCode::kIo, "No such file or directory",
               [&] { TokenWriter writer(path("missing/tokens"), 300); });
}

TEST_F(TokenFileTest, AVocabularyThatFitsNoWidthIsRefused) {
  for (const std::int64_t vocabulary :
       {std::int64_t{0}, std::int64_t{-1}, (std::int64_t{1} << 32) + 1}) {
    expect_error(ErrorCode::kUsage, cat("a vocabulary of ", vocabulary),
                 [&] { TokenWriter writer(path("tokens"), vocabulary); });
  }
  EXPECT_EQ(files(), 0U);
}

TEST_F(TokenFileTest, OpenTextTokenisesATextAndLeavesNothingBehind) {
  const auto bytes = make_tokenizer("byte");
  const TokenFile file = open_text(put("text", "In the beginning\n"), *bytes);
  EXPECT_EQ(bytes->decode(all_tokens(file)), "In the beginning\n");
  EXPECT_EQ(file.vocabulary(), 256);
  EXPECT_EQ(file.path(), path("text"));
  EXPECT_EQ(files(), 1U);
}

TEST_F(TokenFileTest, OpenTextTakesATokenFileAsItIs) {
  const TokenFile file = open_text(put_small("tokens"), *make_tokenizer("byte"));
  EXPECT_EQ(file.vocabulary(), 300);
  EXPECT_EQ(all_tokens(file), (std::vector<Token>{0, 256, 299}));
}

TEST_F(TokenFileTest, TheVocabularyIsKnownBeforeAllIsRead) {
  const auto bytes = make_tokenizer("byte");
  EXPECT_EQ(text_vocabulary(put_small("tokens"), *bytes), 300);
  EXPECT_EQ(text_vocabulary(put("text", "In the beginning\n"), *bytes), 256);
  EXPECT_EQ(text_vocabulary(path("none"), *bytes), 256);
}

TEST_F(TokenFileTest, OpenTextSaysWhyAFileCannotBeUsed) {
  const auto bytes = make_tokenizer("byte");
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const std::string whole = content(put_small("tokens"));
  struct Case {
    std::string file;
    ErrorCode code;
    std::string part;
  };
  for (const Case& c : {Case{path("missing"), ErrorCode::kIo, "No such file or directory"},
                        Case{"", ErrorCode::kIo, "No such file or directory"},
                        Case{put("empty", ""), ErrorCode::kData, "is empty"},
                        Case{folder_, ErrorCode::kData, "is a folder"},
                        Case{path("pipe"), ErrorCode::kData, "is a pipe or a device"},
                        Case{"/dev/null", ErrorCode::kData, "is a pipe or a device"},
                        Case{put("cut", whole.substr(0, 20)), ErrorCode::kData, "is cut short"}}) {
    expect_error(c.code, c.part, [&] { (void)open_text(c.file, *bytes); });
    expect_error(c.code, c.file, [&] { (void)open_text(c.file, *bytes); });
  }
}

TEST_F(TokenFileTest, OpenTextNamesATextThatMayNotBeRead) {
  if (::geteuid() == 0) GTEST_SKIP() << "the superuser may read everything";
  const std::string file = put("secret", "text");
  ASSERT_EQ(::chmod(file.c_str(), 0), 0);
  expect_error(ErrorCode::kIo, "Permission denied",
               [&] { (void)open_text(file, *make_tokenizer("byte")); });
}

}  // namespace
}  // namespace chimera
