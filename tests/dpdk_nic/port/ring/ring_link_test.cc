#include "dpdk_nic/port/ring/ring_link.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <vector>

namespace uroce::nic {
namespace {

using transport::IcrcUse;

UniqueFd Dup(const UniqueFd& fd) { return UniqueFd(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0)); }

bool IsReadable(int fd) {
  pollfd poll_fd{fd, POLLIN, 0};
  return poll(&poll_fd, 1, 0) == 1;
}

bool SendByte(RingLink& link, uint8_t value) {
  const std::span<uint8_t> room = link.Acquire();
  if (room.empty()) return false;
  room[0] = value;
  link.Commit(62);
  link.Flush();
  return true;
}

// The first byte of the next frame, or -1.
int TakeByte(RingLink& link) {
  const std::span<const uint8_t> frame = link.Receive();
  if (frame.empty()) return -1;
  const int value = frame[0];
  link.Release();
  return value;
}

// Both ends in one process, each with a mapping of its own.
class RingLinkTest : public ::testing::Test {
 protected:
  RingLinkTest() {
    auto offer = RingLink::Create();
    asker_ = std::move(offer->link);
    asked_ = RingLink::Accept(std::move(offer->memory), std::move(offer->socket));
  }

  std::unique_ptr<RingLink> asker_;
  std::unique_ptr<RingLink> asked_;
};

TEST_F(RingLinkTest, FramesGoBothWays) {
  SendByte(*asker_, 10);
  SendByte(*asked_, 20);
  EXPECT_EQ(TakeByte(*asked_), 10);
  EXPECT_EQ(TakeByte(*asker_), 20);
  EXPECT_EQ(TakeByte(*asker_), -1);
  EXPECT_TRUE(asker_->peer_alive());
  EXPECT_TRUE(asked_->peer_alive());
}

TEST_F(RingLinkTest, IcrcIsWaivedByBothSidesOrNotAtAll) {
  EXPECT_EQ(asked_->Acquire().icrc, IcrcUse::kCarried);
  asker_->Waive(IcrcUse::kWaived);
  EXPECT_EQ(asker_->Acquire().icrc, IcrcUse::kCarried);
  SendByte(*asker_, 1);
  asked_->Waive(IcrcUse::kWaived);
  EXPECT_EQ(TakeByte(*asked_), 1);
  EXPECT_EQ(asked_->icrc_use(), IcrcUse::kWaived) << "whether the frame has one or not";

  EXPECT_EQ(asked_->Acquire().icrc, IcrcUse::kWaived);
  SendByte(*asked_, 2);
  EXPECT_EQ(TakeByte(*asker_), 2);
  EXPECT_EQ(asker_->icrc_use(), IcrcUse::kWaived);
}

TEST_F(RingLinkTest, NetworkHeadersAreWaivedByBothSidesOrNotAtAll) {
  asker_->Waive(IcrcUse::kWaivedWithHeaders);
  asked_->Waive(IcrcUse::kWaived);
  for (RingLink* const end : {asker_.get(), asked_.get()}) {
    EXPECT_EQ(end->Acquire().icrc, IcrcUse::kWaived);
    EXPECT_EQ(end->icrc_use(), IcrcUse::kWaived);
  }
  asked_->Waive(IcrcUse::kWaivedWithHeaders);
  for (RingLink* const end : {asker_.get(), asked_.get()}) {
    EXPECT_EQ(end->Acquire().icrc, IcrcUse::kWaivedWithHeaders);
    EXPECT_EQ(end->icrc_use(), IcrcUse::kWaivedWithHeaders);
  }
}

TEST_F(RingLinkTest, MoreCannotBeWaivedThanThereIs) {
  asker_->Waive(static_cast<IcrcUse>(200));
  asked_->Waive(IcrcUse::kWaived);
  EXPECT_EQ(asked_->icrc_use(), IcrcUse::kWaived);
}

TEST_F(RingLinkTest, IcrcIsCheckedIfOnlyThePeerWaives) {
  asked_->Waive(IcrcUse::kWaived);
  SendByte(*asked_, 1);
  EXPECT_EQ(TakeByte(*asker_), 1);
  EXPECT_EQ(asker_->icrc_use(), IcrcUse::kCarried);
  EXPECT_EQ(asked_->Acquire().icrc, IcrcUse::kCarried);
}

TEST_F(RingLinkTest, FullRingIsBackPressureNotLoss) {
  uint32_t sent = 0;
  while (SendByte(*asker_, static_cast<uint8_t>(sent))) ++sent;
  EXPECT_EQ(sent, kSlots);
  for (uint32_t i = 0; i < sent; ++i) ASSERT_EQ(TakeByte(*asked_), static_cast<uint8_t>(i));
  asked_->Flush();
  EXPECT_TRUE(SendByte(*asker_, 1));
  EXPECT_FALSE(asker_->broken());
}

TEST_F(RingLinkTest, SleeperIsWokenByAFrameAndByNothingElse) {
  SendByte(*asker_, 1);
  EXPECT_FALSE(asked_->BeginSleep()) << "a frame is there";
  EXPECT_EQ(TakeByte(*asked_), 1);
  SendByte(*asker_, 2);
  EXPECT_FALSE(IsReadable(asked_->socket())) << "no thread slept";
  EXPECT_EQ(TakeByte(*asked_), 2);

  ASSERT_TRUE(asked_->BeginSleep());
  asker_->Flush();
  EXPECT_FALSE(IsReadable(asked_->socket()));
  SendByte(*asker_, 3);
  EXPECT_TRUE(IsReadable(asked_->socket()));
  asked_->EndSleep();
  EXPECT_TRUE(asked_->peer_alive());
  EXPECT_FALSE(IsReadable(asked_->socket()));
  EXPECT_EQ(TakeByte(*asked_), 3);
}

// A thread reads the wake-up byte but does not poll the ring.
TEST_F(RingLinkTest, SleeperWithALostWakeupIsWokenAgain) {
  ASSERT_TRUE(asked_->BeginSleep());
  SendByte(*asker_, 1);
  EXPECT_TRUE(asked_->peer_alive());
  asker_->WakePeerIfBehind();
  EXPECT_FALSE(IsReadable(asked_->socket())) << "the thread may be about to poll";
  SendByte(*asker_, 2);
  EXPECT_FALSE(IsReadable(asked_->socket()));
  asker_->WakePeerIfBehind();
  EXPECT_TRUE(IsReadable(asked_->socket()));

  EXPECT_TRUE(asked_->peer_alive());
  EXPECT_EQ(TakeByte(*asked_), 1);
  EXPECT_EQ(TakeByte(*asked_), 2);
  EXPECT_TRUE(asked_->BeginSleep());
  asker_->WakePeerIfBehind();
  EXPECT_FALSE(IsReadable(asked_->socket())) << "nothing is left";
}

TEST_F(RingLinkTest, WithdrawnSleepIsNotWoken) {
  ASSERT_TRUE(asked_->BeginSleep());
  asked_->EndSleep();
  SendByte(*asker_, 1);
  EXPECT_FALSE(IsReadable(asked_->socket()));
}

TEST_F(RingLinkTest, FramesSentBeforeTheEndAreReceived) {
  for (uint8_t i = 0; i < 100; ++i) SendByte(*asker_, i);
  asker_.reset();
  EXPECT_TRUE(IsReadable(asked_->socket()));
  EXPECT_FALSE(asked_->peer_alive());
  for (int i = 0; i < 100; ++i) ASSERT_EQ(TakeByte(*asked_), i);
  EXPECT_EQ(TakeByte(*asked_), -1);
  EXPECT_FALSE(asked_->broken());
}

TEST_F(RingLinkTest, SendingToADeadPeerDisturbsNothing) {
  ASSERT_TRUE(asked_->BeginSleep());
  asked_.reset();
  for (uint32_t i = 0; i < kSlots; ++i) ASSERT_TRUE(SendByte(*asker_, 1));
  EXPECT_FALSE(SendByte(*asker_, 1));
  EXPECT_FALSE(asker_->peer_alive());
}

TEST_F(RingLinkTest, UnreadOfferIsADeadPeer) {
  auto offer = RingLink::Create();
  EXPECT_TRUE(offer->link->peer_alive());
  offer->socket.reset();
  EXPECT_FALSE(offer->link->peer_alive());
}

TEST_F(RingLinkTest, AbandonedEndIsADeadPeer) {
  asked_->Abandon();
  EXPECT_FALSE(asker_->peer_alive());
}

TEST_F(RingLinkTest, PeerThatFloodsABlockingSocketBlocksNoThread) {
  auto offer = RingLink::Create();
  const UniqueFd same_socket = Dup(offer->socket);
  const auto link = RingLink::Accept(std::move(offer->memory), std::move(offer->socket));
  ASSERT_NE(fcntl(same_socket.get(), F_GETFL) & O_NONBLOCK, 0);
  ASSERT_EQ(fcntl(same_socket.get(), F_SETFL, 0), 0);
  EXPECT_TRUE(link->peer_alive());

  // A wake-up that finds no room in the socket must not wait for it.
  const std::vector<uint8_t> flood(1 << 16);
  while (send(same_socket.get(), flood.data(), flood.size(), MSG_DONTWAIT) > 0) {
  }
  ASSERT_TRUE(offer->link->BeginSleep());
  EXPECT_TRUE(SendByte(*link, 1));
  EXPECT_TRUE(offer->link->peer_alive());
}

TEST(RingLinkAcceptTest, NonUnixDatagramOrUnconnectedSocketIsRefused) {
  const auto refuses = [](UniqueFd socket) {
    auto offer = RingLink::Create();
    errno = 0;
    return RingLink::Accept(std::move(offer->memory), std::move(socket)) == nullptr &&
           errno == EPROTO;
  };
  int datagram[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, datagram), 0);
  const UniqueFd other_end(datagram[1]);
  EXPECT_TRUE(refuses(UniqueFd(datagram[0])));
  EXPECT_TRUE(refuses(UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0))));
  EXPECT_TRUE(refuses(UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))));
  EXPECT_TRUE(refuses(UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC))));
  EXPECT_TRUE(refuses(UniqueFd()));
}

TEST(RingLinkAcceptTest, InvalidRingMemoryIsRefused) {
  auto offer = RingLink::Create();
  UniqueFd unsealed(memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(unsealed.get(), lseek(offer->memory.get(), 0, SEEK_END)), 0);
  EXPECT_EQ(RingLink::Accept(std::move(unsealed), Dup(offer->socket)), nullptr);
  EXPECT_EQ(RingLink::Accept(UniqueFd(), Dup(offer->socket)), nullptr);
  EXPECT_NE(RingLink::Accept(std::move(offer->memory), std::move(offer->socket)), nullptr);
}

bool PunchHole(const UniqueFd& memory) {
  return fallocate(memory.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4'096) == 0;
}

TEST(RingLinkAcceptTest, AcceptedMemoryTakesNoHoles) {
  auto offer = RingLink::Create();
  const UniqueFd memory = Dup(offer->memory);
  EXPECT_FALSE(offer->link->IsOpen());
  const auto link = RingLink::Accept(std::move(offer->memory), std::move(offer->socket));
  ASSERT_NE(link, nullptr);
  EXPECT_TRUE(offer->link->IsOpen());
  EXPECT_TRUE(offer->link->IsOpen()) << "for good";
  EXPECT_TRUE(link->IsOpen());
  EXPECT_FALSE(PunchHole(memory));
  EXPECT_FALSE(offer->link->HasHoles());
}

TEST(RingLinkAcceptTest, FramesWaitForASideThatAcceptsLate) {
  auto offer = RingLink::Create();
  EXPECT_TRUE(SendByte(*offer->link, 10));
  EXPECT_FALSE(offer->link->IsOpen());
  EXPECT_FALSE(offer->link->HasHoles());
  const auto link = RingLink::Accept(std::move(offer->memory), std::move(offer->socket));
  ASSERT_NE(link, nullptr);
  EXPECT_EQ(TakeByte(*link), 10);
}

TEST(RingLinkAcceptTest, HolePunchedInsteadOfAcceptingIsNoticed) {
  auto offer = RingLink::Create();
  EXPECT_TRUE(PunchHole(offer->memory));
  EXPECT_TRUE(offer->link->HasHoles());
}

TEST_F(RingLinkTest, ReleasedFrameIsAnsweredWhenThePeerSaysSo) {
  EXPECT_EQ(asker_->sent(), 0u);
  SendByte(*asker_, 10);
  SendByte(*asker_, 11);
  EXPECT_EQ(TakeByte(*asked_), 10);
  asked_->Flush();
  EXPECT_EQ(asker_->sent(), 2u);
  EXPECT_EQ(asker_->answered(), 0u);
  asked_->TellAnswered();
  EXPECT_EQ(asker_->answered(), 1u);
}

TEST(RingLinkAnsweredTest, AnsweredPositionThatMakesNoSenseCountsAsAll) {
  const auto memory = RingMemory::Create();
  ASSERT_NE(memory, nullptr);
  FrameProducer producer(memory->ring(0));
  ASSERT_FALSE(producer.Acquire().empty());
  producer.Commit(62);
  memory->ring(0).control->consumer_answered.store(2);
  EXPECT_EQ(producer.answered(), 1u);
}

TEST_F(RingLinkTest, PeerThatDiesIsKnownFromOneThatClosesTheLink) {
  EXPECT_FALSE(asker_->has_peer_died());
  asked_.reset();
  EXPECT_FALSE(asker_->peer_alive());
  EXPECT_TRUE(asker_->has_peer_died());

  auto offer = RingLink::Create();
  auto link = RingLink::Accept(std::move(offer->memory), std::move(offer->socket));
  link->Leave();
  link.reset();
  EXPECT_FALSE(offer->link->peer_alive());
  EXPECT_FALSE(offer->link->has_peer_died());
}

TEST(RingLinkAcceptTest, TakesASeqpacketSocket) {
  auto offer = RingLink::Create();
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd other_end(ends[1]);
  const auto link = RingLink::Accept(std::move(offer->memory), UniqueFd(ends[0]));
  ASSERT_NE(link, nullptr);
  EXPECT_TRUE(link->peer_alive());
}

// The peer writes random words and positions between the steps of the honest end. The honest end
// sees frames within their slots, back-pressure, or a broken link, and nothing else.
TEST(RingLinkGarbageTest, GarbageInTheMemoryLeavesTheHonestEndWithinBounds) {
  std::minstd_rand random(1);
  const auto any = [&](uint64_t below) { return static_cast<uint64_t>(random()) % below; };
  int broken_links = 0;
  uint64_t frames = 0;
  for (int round = 0; round < 200; ++round) {
    const auto memory = RingMemory::Create();
    const Ring to_us = memory->ring(0);
    const Ring from_us = memory->ring(1);
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const UniqueFd peer_socket(ends[1]);
    const auto link =
        RingLink::Accept(UniqueFd(fcntl(memory->fd(), F_DUPFD_CLOEXEC, 0)), UniqueFd(ends[0]));
    ASSERT_NE(link, nullptr);
    uint64_t received = 0;
    for (int step = 0; step < 2'000 && !link->broken(); ++step) {
      const auto bits = static_cast<uint16_t>(any(1 << 16));
      memcpy(to_us.slot(received + any(4)), &bits, sizeof bits);
      from_us.control->consumer_position.store(any(100) == 0 ? any(1 << 30) : any(4 * kSlots));
      from_us.control->consumer_asleep.store(static_cast<uint32_t>(any(2)));

      const std::span<const uint8_t> frame = link->Receive();
      if (!frame.empty()) {
        ASSERT_LE(frame.size(), kSlotBytes);
        link->Release();
        ++received;
      }
      if (!link->Acquire().empty()) link->Commit(1 + any(4'224));
      link->Flush();
      ASSERT_TRUE(link->peer_alive());
    }
    broken_links += link->broken() ? 1 : 0;
    frames += received;
  }
  EXPECT_GT(broken_links, 100);
  EXPECT_GT(frames, 100u);
}

// A process is killed at any instruction. Its frames hold their number, then bytes that follow from
// the number.
class RingLinkKillTest : public ::testing::TestWithParam<bool> {
 protected:
  static size_t SizeOf(uint32_t number) { return 64 + number * 37 % 4'000; }

  // A child that has one end of a link, and no other descriptors. The test's parameter says which
  // end.
  struct Victim {
    pid_t pid;
    std::unique_ptr<RingLink> survivor;
  };
  static Victim Start(void (*live)(RingLink&)) {
    auto offer = RingLink::Create();
    auto asked = RingLink::Accept(std::move(offer->memory), std::move(offer->socket));
    std::unique_ptr<RingLink> victim = std::move(offer->link);
    std::unique_ptr<RingLink> survivor = std::move(asked);
    if (!GetParam()) std::swap(victim, survivor);
    const pid_t child = fork();
    if (child == 0) {
      survivor->Abandon();
      live(*victim);
    }
    victim->Abandon();
    return {child, std::move(survivor)};
  }

  uint32_t Random(uint32_t below) { return static_cast<uint32_t>(random_() % below); }

  // Ends the child when the test process has ended.
  static void ExitIfAlone(RingLink& link) {
    if (!link.peer_alive()) _exit(1);
  }
  [[noreturn]] static void SendForEver(RingLink& link) {
    for (uint32_t number = 0;; ++number) {
      std::span<uint8_t> room;
      while ((room = link.Acquire()).empty()) ExitIfAlone(link);
      memcpy(room.data(), &number, sizeof number);
      memset(room.data() + sizeof number, static_cast<int>(number & 0xff),
             SizeOf(number) - sizeof number);
      link.Commit(SizeOf(number));
      link.Flush();
    }
  }
  [[noreturn]] static void ReceiveForEver(RingLink& link) {
    while (true) {
      if (!link.Receive().empty()) link.Release();
      link.Flush();
      if (link.BeginSleep()) link.EndSleep();
      ExitIfAlone(link);
    }
  }
  // Takes and checks the next frame. Returns false if there is none.
  static bool TakeNumbered(RingLink& link, uint32_t number) {
    const std::span<const uint8_t> frame = link.Receive();
    if (frame.empty()) return false;
    uint32_t got;
    memcpy(&got, frame.data(), sizeof got);
    EXPECT_EQ(got, number);
    EXPECT_EQ(frame.size(), SizeOf(number));
    EXPECT_TRUE(std::all_of(frame.begin() + sizeof got, frame.end(),
                            [&](uint8_t byte) { return byte == (number & 0xff); }));
    link.Release();
    return true;
  }

 private:
  std::minstd_rand random_{1};
};

TEST_P(RingLinkKillTest, SurvivorOfAKilledSenderHasEveryWholeFrameAndSeesTheEnd) {
  uint32_t received_in_all = 0;
  for (int round = 0; round < 20; ++round) {
    Victim victim = Start(SendForEver);
    RingLink& survivor = *victim.survivor;
    const uint32_t frames_before_the_kill = Random(2'000);
    uint32_t number = 0;
    while (number < frames_before_the_kill && !HasFailure()) {
      if (TakeNumbered(survivor, number)) ++number;
    }
    usleep(Random(50));
    kill(victim.pid, SIGKILL);
    while (survivor.peer_alive()) {
    }
    while (TakeNumbered(survivor, number)) ++number;
    EXPECT_FALSE(survivor.broken());
    waitpid(victim.pid, nullptr, 0);
    received_in_all += number;
  }
  EXPECT_GT(received_in_all, 0u);
}

TEST_P(RingLinkKillTest, SurvivorOfAKilledReceiverHasBackPressureAndSeesTheEnd) {
  for (int round = 0; round < 20; ++round) {
    Victim victim = Start(ReceiveForEver);
    RingLink& survivor = *victim.survivor;
    for (uint32_t left = Random(2'000); left > 0;) left -= SendByte(survivor, 1) ? 1 : 0;
    usleep(Random(50));
    kill(victim.pid, SIGKILL);
    while (survivor.peer_alive()) SendByte(survivor, 1);
    uint32_t more = 0;
    while (SendByte(survivor, 1)) ++more;
    EXPECT_LE(more, kSlots);
    EXPECT_FALSE(survivor.broken());
    waitpid(victim.pid, nullptr, 0);
  }
}
INSTANTIATE_TEST_SUITE_P(EitherSide, RingLinkKillTest, ::testing::Bool());

}  // namespace
}  // namespace uroce::nic
