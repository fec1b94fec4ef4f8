#include "chimera/model/memory_meter.h"

#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <thread>

#include "chimera/model/tensor.h"
#include "chimera/model/testing.h"

namespace chimera {
namespace {

class MemoryMeter : public testing::Test {
 protected:
  MemoryMeter() { install_memory_meter(); }

  // A tensor of so many bytes, made on the calling thread's account.
  static at::Tensor block(std::int64_t bytes) { return at::empty({bytes}, at::kByte); }

  std::shared_ptr<Account> mine_ = std::make_shared<Account>();
  std::shared_ptr<Account> other_ = std::make_shared<Account>();
};

TEST_F(MemoryMeter, ChargesABlockToItsThreadUntilItsLastTensorIsGone) {
  const AccountScope scope(mine_);
  at::Tensor whole = block(1000);
  EXPECT_EQ(mine_->bytes(), 1000);
  at::Tensor part = whole.narrow(0, 10, 5);
  whole.reset();
  EXPECT_EQ(mine_->bytes(), 1000);
  part.reset();
  EXPECT_EQ(mine_->bytes(), 0);
  EXPECT_EQ(mine_->peak_bytes(), 1000);
}

TEST_F(MemoryMeter, CountsNothingWithoutAScope) {
  {
    const AccountScope scope(mine_);
    const AccountScope inner(nullptr);
    const at::Tensor tensor = block(500);
    EXPECT_EQ(mine_->bytes(), 0);
  }
  const at::Tensor tensor = block(500);
  EXPECT_EQ(mine_->peak_bytes(), 0);
}

TEST_F(MemoryMeter, ScopesNest) {
  const AccountScope scope(mine_);
  const at::Tensor a = block(1);
  at::Tensor b;
  {
    const AccountScope inner(other_);
    b = block(2);
  }
  const at::Tensor c = block(4);
  EXPECT_EQ(mine_->bytes(), 5);
  EXPECT_EQ(other_->bytes(), 2);
  b.reset();
  EXPECT_EQ(mine_->bytes(), 5);
  EXPECT_EQ(other_->bytes(), 0);
}

TEST_F(MemoryMeter, PeakIsOfWhatIsHeldAtATime) {
  const AccountScope scope(mine_);
  block(100).reset();
  block(70).reset();
  EXPECT_EQ(mine_->peak_bytes(), 100);
  const at::Tensor kept = block(30);
  mine_->reset_peak();
  EXPECT_EQ(mine_->peak_bytes(), 30);
  block(20).reset();
  EXPECT_EQ(mine_->peak_bytes(), 50);
}

TEST_F(MemoryMeter, CreditsTheAccountThatWasChargedWhicheverThreadFrees) {
  at::Tensor tensor;
  {
    const AccountScope scope(mine_);
    tensor = block(300);
  }
  std::thread([&] {
    const AccountScope scope(other_);
    tensor.reset();
  }).join();
  EXPECT_EQ(mine_->bytes(), 0);
  EXPECT_EQ(other_->peak_bytes(), 0);
}

TEST_F(MemoryMeter, BlocksMayOutliveTheirAccountsHolder) {
  at::Tensor tensor;
  {
    const AccountScope scope(mine_);
    tensor = block(300);
  }
  const std::weak_ptr<Account> account = mine_;
  mine_.reset();
  EXPECT_FALSE(account.expired());
  tensor.reset();
  EXPECT_TRUE(account.expired());
}

TEST_F(MemoryMeter, AdoptingMovesAMessagesCharge) {
  Message message;
  {
    const AccountScope scope(mine_);
    message = to_message(at::ones({10, 5}));
    EXPECT_EQ(mine_->bytes(), 200);
  }
  {
    const AccountScope scope(other_);
    adopt(message);
    adopt(message);  // its own already
  }
  EXPECT_EQ(mine_->bytes(), 0);
  EXPECT_EQ(other_->bytes(), 200);
  at::Tensor tensor = to_tensor(std::move(message), at::kCPU);
  EXPECT_EQ(other_->bytes(), 200);
  tensor.reset();
  EXPECT_EQ(other_->bytes(), 0);
}

TEST_F(MemoryMeter, AMessageIsABlockOfItsOwnAlthoughItsTensorWasPartOfOne) {
  const AccountScope scope(mine_);
  at::Tensor whole = at::ones({10, 5});
  const Message message = to_message(whole.narrow(0, 4, 2));
  EXPECT_EQ(mine_->bytes(), 240);
  whole.reset();
  EXPECT_EQ(mine_->bytes(), 40);
}

TEST_F(MemoryMeter, MessagesThatNoTensorMadeAreChargedOnceAdopted) {
  Message message = make_message(DType::kFloat32, {10, 5});
  const std::byte* data = message.data;
  {
    const AccountScope scope(mine_);
    adopt(message);
  }
  EXPECT_EQ(message.data, data);
  EXPECT_EQ(mine_->bytes(), 200);
  at::Tensor tensor = to_tensor(std::move(message), at::kCPU);
  tensor.fill_(1);
  EXPECT_EQ(mine_->bytes(), 200);
  tensor.reset();
  EXPECT_EQ(mine_->bytes(), 0);
}

TEST_F(MemoryMeter, StagesAdoptWhatTheyReceive) {
  const ModelSpec spec = tiny_spec();
  TestPipeline pipeline(spec, {4, 4}, make_batch(spec, 2), {2});
  pipeline.begin();
  const std::int64_t bytes = 2 * spec.sequence * spec.hidden * 8;
  Message message;
  {
    const AccountScope scope(mine_);
    message = pipeline.stages[0]->forward(0, {}, {});
  }
  const std::int64_t with_output = mine_->bytes();
  {
    const AccountScope scope(other_);
    (void)pipeline.stages[1]->forward(0, std::move(message), {});
    EXPECT_EQ(mine_->bytes(), with_output - bytes);
    message = pipeline.stages[1]->backward(0, {});
    EXPECT_EQ(other_->bytes(), bytes);
  }
  {
    const AccountScope scope(mine_);
    (void)pipeline.stages[0]->backward(0, std::move(message));
  }
  EXPECT_EQ(mine_->bytes(), 0);
  EXPECT_EQ(other_->bytes(), 0);
}

TEST_F(MemoryMeter, SamplesEachChange) {
  const AccountScope scope(mine_);
  at::Tensor first = block(10);
  mine_->start_sampling();
  at::Tensor second = block(5);
  first.reset();
  const std::vector<Level> levels = mine_->stop_sampling();
  second.reset();
  ASSERT_EQ(levels.size(), 3U);
  EXPECT_EQ(levels[0].bytes, 10);
  EXPECT_EQ(levels[1].bytes, 15);
  EXPECT_EQ(levels[2].bytes, 5);
  EXPECT_LE(levels[0].time_s, levels[1].time_s);
  EXPECT_LE(levels[1].time_s, levels[2].time_s);
  EXPECT_TRUE(mine_->stop_sampling().empty());
}

TEST_F(MemoryMeter, BlocksFromBeforeAreFreedUncounted) {
  const AccountScope scope(mine_);
  c10::DataPtr early = c10::GetDefaultCPUAllocator()->allocate(100);
  early.clear();
  c10::GetCPUAllocator()->raw_deallocate(c10::GetDefaultCPUAllocator()->raw_allocate(100));
  EXPECT_EQ(mine_->bytes(), 0);
  void* raw = c10::GetCPUAllocator()->raw_allocate(100);
  EXPECT_EQ(mine_->bytes(), 100);
  c10::GetCPUAllocator()->raw_deallocate(raw);
  EXPECT_EQ(mine_->bytes(), 0);
  EXPECT_EQ(at::empty({0}).nbytes(), 0U);
}

TEST_F(MemoryMeter, StaysExactWhileThreadsFreeEachOthersBlocks) {
  constexpr int kThreads = 4, kBlocks = 2000;
  std::vector<std::vector<at::Tensor>> tensors(kThreads);
  std::vector<std::shared_ptr<Account>> accounts;
  for (int i = 0; i < kThreads; ++i) accounts.push_back(std::make_shared<Account>());
  const auto on_all = [&](const std::function<void(std::size_t)>& body) {
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        const AccountScope scope(accounts[i]);
        body(i);
      });
    }
    for (std::thread& thread : threads) thread.join();
  };
  on_all([&](std::size_t i) {
    for (int j = 0; j < kBlocks; ++j) tensors[i].push_back(block(1 + j % 50));
  });
  on_all([&](std::size_t i) {
    std::vector<at::Tensor>& neighbours = tensors[(i + 1) % kThreads];
    while (!neighbours.empty()) {
      neighbours.pop_back();
      (void)block(7);
    }
  });
  for (const auto& account : accounts) {
    EXPECT_EQ(account->bytes(), 0);
    EXPECT_GE(account->peak_bytes(), kBlocks / 50 * (50 * 51 / 2));
  }
}

}  // namespace
}  // namespace chimera
