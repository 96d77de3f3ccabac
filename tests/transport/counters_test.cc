#include "transport/counters.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "tests/transport/connected_pair.h"

namespace uroce::transport {
namespace {

TEST(CountersTest, EveryDropReasonHasItsOwnNameAndCounter) {
  std::set<std::string_view> names;
  Counters counters;
  for (size_t i = 0; i < counters.dropped.size(); ++i) {
    const auto reason = static_cast<DropReason>(i);
    EXPECT_NE("unknown", Name(reason)) << i;
    EXPECT_TRUE(names.insert(Name(reason)).second) << Name(reason);
    counters.drops(reason) += i;
    EXPECT_EQ(i, counters.dropped[i]);
  }
  EXPECT_EQ("unknown", Name(DropReason::kCount));
}

TEST(CountersTest, EveryCounterOfAQueuePairHasAPlaceOfItsOwn) {
  QueuePairCounters of_queue_pair;
  Counters of_endpoint;
  std::set<std::string_view> names;
  uint64_t number = 0;
  for (const auto& row : kQueuePairCounters) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.meaning.empty()) << row.name;
    of_queue_pair.*row.of_queue_pair = ++number;
    of_endpoint.*row.of_endpoint = 100;
  }
  EXPECT_EQ(number * sizeof number, sizeof(QueuePairCounters));
  of_endpoint += of_queue_pair;
  number = 0;
  for (const auto& row : kQueuePairCounters)
    EXPECT_EQ(of_endpoint.*row.of_endpoint, 100 + ++number);
}

class QueuePairCountersTest : public ::testing::Test {
 protected:
  void Post() {
    pair.PostReceive(8);
    ASSERT_EQ(pair.client.qp->PostSend(pair.Request(SendOpcode::kSend, 8)), Status::kOk);
  }
  void Send() {
    Post();
    pair.Exchange();
  }

  ConnectedPair pair;
};

TEST_F(QueuePairCountersTest, PacketsCountForTheirQueuePair) {
  for (int i = 0; i < 3; ++i) Send();
  EXPECT_EQ(pair.client.qp->counters().transmitted_packets, 3u);
  EXPECT_EQ(pair.client.qp->counters().received_packets, 3u) << "ACKs";
  EXPECT_EQ(pair.server.qp->counters().received_packets, 3u);
  EXPECT_EQ(pair.server.qp->counters().received_bytes,
            pair.client.qp->counters().transmitted_bytes);
  EXPECT_EQ(pair.server.endpoint.counters().received_packets, 3u);
}

TEST_F(QueuePairCountersTest, DuplicateCountsForItsQueuePair) {
  Post();
  const size_t bytes =
      pair.client.endpoint.PollTransmit(pair.now, Route::kWire, FrameRoom(pair.frame, pair.icrc));
  for (int i = 0; i < 2; ++i) {
    pair.server.endpoint.OnFrame(pair.now, std::span(pair.frame).first(bytes));
  }
  EXPECT_EQ(pair.server.qp->counters().received_packets, 2u);
  EXPECT_EQ(pair.server.qp->counters().duplicate_requests, 1u);
}

TEST_F(QueuePairCountersTest, FrameOfAStrangerCountsForTheEndpointAlone) {
  const std::vector<uint8_t> garbage(100);
  pair.server.endpoint.OnFrame(pair.now, garbage);
  EXPECT_EQ(pair.server.qp->counters().received_packets, 0u);
  EXPECT_EQ(pair.server.endpoint.counters().received_packets, 1u);
  EXPECT_EQ(pair.server.endpoint.counters().received_bytes, 100u);
}

TEST_F(QueuePairCountersTest, CountsOfADestroyedQueuePairStay) {
  Send();
  const Counters before = pair.server.endpoint.counters();
  pair.server.endpoint.DestroyQueuePair(pair.server.qp);
  const Counters after = pair.server.endpoint.counters();
  for (const auto& row : kQueuePairCounters) {
    EXPECT_EQ(after.*row.of_endpoint, before.*row.of_endpoint) << row.name;
  }
}

}  // namespace
}  // namespace uroce::transport
