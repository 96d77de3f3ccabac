// The queues of timers and of turns to transmit, with as many queue pairs as an endpoint can have.
// What has to be independent of their number takes minutes if it is not.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "transport/qp/deadline_queue.h"
#include "transport/qp/transmit_queue.h"

namespace uroce::transport {
namespace {

class Sender : public TransmitClient {
 public:
  size_t BuildFrame(Time, std::span<uint8_t> out) override {
    out[0] = static_cast<uint8_t>(number);
    return 1;
  }
  int number = 0;
};

class TransmitQueueTest : public testing::Test {
 protected:
  // Whose frame is the next.
  int NextSender(TransmitQueue& queue) {
    return queue.BuildFrame({}, frame_) == 0 ? -1 : frame_[0];
  }
  std::array<uint8_t, 1> frame_;
};

TEST_F(TransmitQueueTest, OthersKeepTheirTurnsWhenOneLeaves) {
  for (int leaver = 0; leaver < 4; ++leaver) {
    TransmitQueue queue;
    std::array<Sender, 4> senders;
    for (int i = 0; i < 4; ++i) {
      senders[static_cast<size_t>(i)].number = i;
      queue.Add(senders[static_cast<size_t>(i)]);
    }
    Sender& gone = senders[static_cast<size_t>(leaver)];
    queue.Remove(gone);
    queue.Remove(gone);  // is not in it any more
    for (int i = 0; i < 4; ++i) {
      if (i == leaver) continue;
      EXPECT_EQ(NextSender(queue), i);
      queue.Remove(senders[static_cast<size_t>(i)]);
    }
    EXPECT_TRUE(queue.empty());
    queue.Add(gone);
    EXPECT_EQ(NextSender(queue), leaver);
  }
}

TEST_F(TransmitQueueTest, LeavingDoesNotLookAtTheOthers) {
  std::vector<Sender> senders(400'000);
  TransmitQueue queue;
  for (Sender& sender : senders) queue.Add(sender);
  std::vector<Sender*> order;
  for (Sender& sender : senders) order.push_back(&sender);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  for (Sender* sender : order) queue.Remove(*sender);
  EXPECT_TRUE(queue.empty());
}

TEST(DeadlineQueueTest, RoomGrowsFasterThanByOne) {
  DeadlineQueue queue;
  for (size_t clients = 1; clients <= 400'000; ++clients) queue.Reserve(clients);
}

}  // namespace
}  // namespace uroce::transport
