#include "dpdk_nic/port/fabric/waiting_frames.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <vector>

namespace uroce::nic {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes FrontOf(const WaitingFrames& frames, const WaitingFrames::Queue& queue) {
  const auto frame = frames.Front(queue);
  return {frame.begin(), frame.end()};
}

TEST(WaitingFramesTest, EachQueueKeepsItsOrderUnderRandomOperations) {
  WaitingFrames frames;
  std::mt19937 random(1);
  std::vector<WaitingFrames::Queue> queues(40);
  std::vector<std::deque<Bytes>> model(queues.size());
  size_t total = 0, refused = 0;
  for (int step = 0; step < 200'000; ++step) {
    const size_t i = random() % queues.size();
    if (random() % 1'000 == 0) {
      EXPECT_EQ(frames.RemoveAll(queues[i]), model[i].size());
      total -= model[i].size();
      model[i].clear();
    } else if (random() % 100 < 60) {
      const Bytes frame(1 + random() % transport::kMaxFrameBytes, static_cast<uint8_t>(step));
      const bool has_room =
          model[i].size() < WaitingFrames::kMaxFramesOfOne && total < WaitingFrames::kMaxFrames;
      ASSERT_EQ(frames.Add(queues[i], frame), has_room);
      refused += has_room ? 0 : 1;
      if (has_room) model[i].push_back(frame), ++total;
    } else if (!model[i].empty()) {
      ASSERT_EQ(FrontOf(frames, queues[i]), model[i].front());
      frames.RemoveFront(queues[i]);
      model[i].pop_front();
      --total;
    }
    ASSERT_EQ(queues[i].size(), model[i].size());
  }
  EXPECT_GT(refused, 0u);
}

TEST(WaitingFramesTest, OneQueueDoesNotTakeAll) {
  WaitingFrames frames;
  WaitingFrames::Queue one, other;
  const Bytes frame(transport::kMaxFrameBytes, 7);
  for (size_t i = 0; i < WaitingFrames::kMaxFramesOfOne; ++i) EXPECT_TRUE(frames.Add(one, frame));
  EXPECT_FALSE(frames.Add(one, frame));
  EXPECT_TRUE(frames.Add(other, frame));
  EXPECT_EQ(FrontOf(frames, other), frame);
}

}  // namespace
}  // namespace uroce::nic
