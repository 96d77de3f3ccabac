// The first datagrams between processes that have no link yet.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/dpdk_nic/port/fabric/fabric_port_fixture.h"

namespace uroce::nic {
namespace {

using control::Block;

// The first datagrams to a peer go by the uplink; only many of them make a link.
class FirstContactTest : public FabricPortTest {
 protected:
  FirstContactTest() {
    EXPECT_EQ(a_->PreparePath({}), PathState::kPending);
    ServeAll(*a_, *b_);
    EXPECT_EQ(a_->PreparePath({}), PathState::kReady);
    uroced_->client(BlockOf(*a_)).requests.clear();
  }
  RingLink& uplink() { return *uroced_->client(BlockOf(*a_)).uplink; }
  int TakeFromUplink() {
    const std::span<const uint8_t> frame = uplink().Receive();
    if (frame.empty()) return -1;
    const int value = frame[0];
    uplink().Release();
    uplink().Flush();
    return value;
  }

  const std::unique_ptr<FabricPort> a_ = NewPort();
  const std::unique_ptr<FabricPort> b_ = NewPort();
};

TEST_F(FirstContactTest, DatagramGoesByTheUplinkAtOnce) {
  EXPECT_TRUE(SendDatagram(*a_, RouteTo(*b_), 7));
  EXPECT_EQ(TakeFromUplink(), 7);
  ServeAll(*a_, *b_);
  EXPECT_TRUE(uroced_->client(BlockOf(*a_)).requests.empty()) << "not worth a link";
}

TEST_F(FirstContactTest, ManyDatagramsAreWorthALink) {
  int by_uplink = 0;
  for (uint8_t i = 0; i < 100; ++i) {
    EXPECT_TRUE(SendDatagram(*a_, RouteTo(*b_), i));
    ServeAll(*a_, *b_);
    if (TakeFromUplink() == i) {
      ++by_uplink;
    } else {
      ASSERT_EQ(Take(*b_), (Taken{i, RouteTo(*a_)}));
    }
  }
  EXPECT_EQ(by_uplink, 16);
  EXPECT_EQ(uroced_->client(BlockOf(*a_)).requests, std::vector<Block>{BlockOf(*b_)});
}

TEST_F(FirstContactTest, DatagramsBeyondABoundWaitForTheLink) {
  uroced_->ignores_links = true;
  int by_uplink = 0;
  for (uint8_t i = 0; i < 100; ++i) {
    EXPECT_TRUE(SendDatagram(*a_, RouteTo(*b_), i));
    if (TakeFromUplink() == i) ++by_uplink;
  }
  EXPECT_EQ(by_uplink, 64);
  EXPECT_EQ(a_->counters().transmit_dropped_link_pending, 0u) << "the others wait";
}

TEST_F(FirstContactTest, FramesOfConnectionsKeepTheirOrderAndWait) {
  EXPECT_TRUE(SendByte(*a_, *b_, 1));
  EXPECT_EQ(TakeFromUplink(), -1);
  EXPECT_TRUE(SendDatagram(*a_, RouteTo(*b_), 2));
  EXPECT_EQ(TakeFromUplink(), -1) << "it does not overtake";
  ServeAll(*a_, *b_);
  EXPECT_EQ(TakeByte(*b_), 1);
  EXPECT_EQ(TakeByte(*b_), 2);
}

TEST_F(FirstContactTest, DatagramsWaitWhereTheUplinkIsFull) {
  uint32_t sent = 0;
  while (SendByte(*a_, Route::kWire, 0)) ++sent;
  EXPECT_EQ(sent, kSlots);
  EXPECT_TRUE(SendDatagram(*a_, RouteTo(*b_), 9));
  ServeAll(*a_, *b_);
  EXPECT_EQ(TakeByte(*b_), 9);
}

}  // namespace
}  // namespace uroce::nic
