#include "chimera/base/background.h"

#include <gtest/gtest.h>

#include <future>
#include <string>

#include "chimera/base/error.h"

namespace chimera {
namespace {

TEST(Background, IsDoneWhenTheWorkIs) {
  std::promise<void> go;
  int result = 0;
  Background work("work", 60, [&](const Background::Progress&) {
    go.get_future().wait();
    result = 7;
  });
  EXPECT_FALSE(work.wait(0));
  go.set_value();
  while (!work.wait(1)) {
  }
  EXPECT_EQ(result, 7);
}

TEST(Background, HandsOnWhatTheWorkThrows) {
  Background work("work", 60, [](const Background::Progress&) {
    throw Error(ErrorCode::kIo, "the disk is full");
  });
  try {
    while (!work.wait(1)) {
    }
    ADD_FAILURE() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "the disk is full");
  }
  EXPECT_THROW((void)work.wait(0), Error);
}

TEST(Background, GivesUpWorkThatMakesNoProgress) {
  std::promise<void> go;
  Background work("writing 'F'", 0, [&](const Background::Progress&) { go.get_future().wait(); });
  try {
    while (!work.wait(1e-3)) {
    }
    ADD_FAILURE() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).rfind("writing 'F' made no progress for ", 0), 0U);
  }
  go.set_value();
}

TEST(Background, EndsWorkAtItsNextSignOfProgressWhenItsOwnerGoes) {
  std::promise<void> go, begun;
  std::thread opener;
  {
    Background work("work", 60, [&](const Background::Progress& progress) {
      begun.set_value();
      go.get_future().wait();
      for (;;) progress();
    });
    begun.get_future().wait();
    opener = std::thread([&] { go.set_value(); });
  }
  opener.join();
}

}  // namespace
}  // namespace chimera
