// Attacks of a process on another by its link, and by the offers that uroced passes on.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/port/ring/ring_memory.h"
#include "dpdk_nic/port/ring/shm_ring.h"
#include "tests/dpdk_nic/port/fabric/fabric_port_fixture.h"

namespace uroce::nic {
namespace {

using control::Block;

// Hostile processes.
class HostilePeerTest : public FabricPortTest {
 protected:
  // Offers `to` a link from `block`, whose other end is appended to hostile_ends_.
  void Offer(FabricPort& to, Block block, int memory) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    const UniqueFd socket(ends[1]);
    hostile_ends_.emplace_back(ends[0]);
    uroced_->client(BlockOf(to))
        .channel.Send(control::LinkOffer{block}, std::array<int, 2>{memory, socket.get()});
  }
  // Bytes sent on `end` that the other side has not read.
  static int Untaken(const UniqueFd& end) {
    int bytes = 0;
    EXPECT_EQ(ioctl(end.get(), SIOCOUTQ, &bytes), 0);
    return bytes;
  }

  std::vector<UniqueFd> hostile_ends_;
};

TEST_F(HostilePeerTest, PassReadsABoundedNumberOfSockets) {
  constexpr Block kPeers = 100;
  const auto a = NewPort();
  std::vector<std::unique_ptr<RingMemory>> memories;
  for (Block i = 0; i < kPeers; ++i) {
    memories.push_back(RingMemory::Create());
    Offer(*a, 800 + i, memories.back()->fd());
    ServeAll(*a);
  }
  const std::vector<uint8_t> flood(1 << 12);
  for (const UniqueFd& end : hostile_ends_) {
    while (send(end.get(), flood.data(), flood.size(), MSG_DONTWAIT) > 0) {
    }
  }
  const auto untaken = [&] {
    int sum = 0;
    for (const UniqueFd& end : hostile_ends_) sum += Untaken(end) > 0 ? 1 : 0;
    return sum;
  };
  EXPECT_EQ(untaken(), static_cast<int>(kPeers));
  for (int pass = 0; pass < 2; ++pass) a->ServeLink();  // must return despite the flood
  EXPECT_EQ(a->counters().receive_malformed, 0u);
}

TEST_F(HostilePeerTest, PeerThatWakesForNothingAgainAndAgainIsCutOff) {
  const auto a = NewPort(), b = NewPort();
  Link(*a, *b);
  const auto memory = RingMemory::Create();
  Offer(*a, 900, memory->fd());
  ServeAll(*a, *b);
  int wakes = 0;
  while (send(hostile_ends_[0].get(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1) {
    ASSERT_LT(++wakes, 1'000);
    a->ServeLink();
  }
  EXPECT_GT(wakes, 10) << "an honest peer may do that now and then";
  EXPECT_EQ(a->counters().receive_malformed, 1u);
  EXPECT_TRUE(SendByte(*b, *a, 5));
  EXPECT_EQ(TakeByte(*a), 5);
}

TEST_F(HostilePeerTest, PeerThatWasCutOffGetsNoNewLinkForASecond) {
  const auto a = NewPort();
  const auto wake_by_new_link = [&] {
    Offer(*a, 900, RingMemory::Create()->fd());
    ServeAll(*a);
    return send(hostile_ends_.back().get(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
  };
  ASSERT_TRUE(wake_by_new_link());
  while (send(hostile_ends_.back().get(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1) a->ServeLink();
  const transport::Time cut_off = Now();
  bool is_refused = true;
  for (int offers = 0; is_refused && offers < 1'000; ++offers) {
    usleep(10'000);
    is_refused = !wake_by_new_link();
  }
  EXPECT_FALSE(is_refused) << "not for ever";
  EXPECT_GE(Now() - cut_off, transport::Milliseconds(900));
}

TEST_F(HostilePeerTest, PeerWhoseFramesAreTakenMayWakeWithoutLimit) {
  const auto a = NewPort(), b = NewPort();
  Link(*a, *b);
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_TRUE(a->BeginSleep());
    EXPECT_TRUE(SendByte(*b, *a, 5));
    EXPECT_EQ(TakeByte(*a), 5) << "another thread was faster";
    a->EndSleep();
  }
  EXPECT_EQ(a->counters().receive_malformed, 0u);
}

TEST_F(HostilePeerTest, PassTakesABoundedNumberOfOffers) {
  const auto a = NewPort(), b = NewPort();
  Link(*a, *b);
  constexpr int kOffers = 100;
  std::vector<std::unique_ptr<RingMemory>> memories;
  for (int i = 0; i < kOffers; ++i) {
    memories.push_back(RingMemory::Create());
    Offer(*a, 900, memories.back()->fd());
  }
  const auto taken = [&] {
    return std::count_if(memories.begin(), memories.end(),
                         [](const auto& memory) { return memory->IsSealed(); });
  };
  a->ServeLink();
  EXPECT_GT(taken(), 0);
  EXPECT_LE(taken(), 32);
  EXPECT_TRUE(IsReadable(a->wait_fd())) << "there is more";
  while (taken() < kOffers) a->ServeLink();
  EXPECT_TRUE(SendByte(*b, *a, 5));
  EXPECT_EQ(TakeByte(*a), 5);
}

TEST_F(HostilePeerTest, OfferOfMemoryWithHolesIsRefused) {
  const auto a = NewPort();
  const auto memory = RingMemory::Create();
  ASSERT_EQ(fallocate(memory->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1 << 20, 1 << 20),
            0);
  Offer(*a, 900, memory->fd());
  ServeAll(*a);
  EXPECT_EQ(a->counters().receive_malformed, 1u);
}

TEST_F(HostilePeerTest, MalformedSlotClosesTheLinkAndOnlyThat) {
  const auto a = NewPort(), b = NewPort();
  Link(*a, *b);
  // A hostile process.
  const auto memory = RingMemory::Create();
  Offer(*a, 900, memory->fd());
  ServeAll(*a, *b);
  EXPECT_TRUE(SendByte(*a, transport::RouteToBlock(900), 1));
  const uint16_t word = SlotWord(kSlotBytes, SlotWord::kNearOffset, 0).bits();
  memcpy(memory->ring(0).slot(0), &word, sizeof word);
  EXPECT_EQ(TakeByte(*a), -1);
  a->ServeLink();
  EXPECT_EQ(a->counters().receive_malformed, 1u);
  EXPECT_TRUE(IsReadable(hostile_ends_[0].get())) << "the end";
  EXPECT_TRUE(SendByte(*a, transport::RouteToBlock(900), 1));
  EXPECT_EQ(a->counters().transmit_dropped_no_link, 1u);

  EXPECT_TRUE(SendByte(*b, *a, 5));
  EXPECT_EQ(TakeByte(*a), 5);
}

TEST_F(FabricPortTest, OfferOfNonsenseIsCountedAndTheLinkThereIsStays) {
  const auto a = NewPort(), b = NewPort();
  Link(*a, *b);
  const std::array<int, 2> nonsense = {published_state_.get(), published_state_.get()};
  for (const Block block : {BlockOf(*b), Block{0}, Block{~0u}, BlockOf(*a)}) {
    uroced_->client(BlockOf(*a)).channel.Send(control::LinkOffer{block}, nonsense);
  }
  ServeAll(*a, *b);
  EXPECT_EQ(a->counters().receive_malformed, 1u);
  EXPECT_TRUE(SendByte(*a, *b, 9));
  EXPECT_EQ(TakeByte(*b), 9);
}

}  // namespace
}  // namespace uroce::nic
