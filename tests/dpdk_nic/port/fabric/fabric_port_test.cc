#include "dpdk_nic/port/fabric/fabric_port.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "dpdk_nic/base/clock.h"
#include "tests/dpdk_nic/port/fabric/fabric_port_fixture.h"

namespace uroce::nic {
namespace {

using control::Block;
using transport::Gid;

TEST_F(FabricPortTest, AttachedPortHasBlockMtuAndMacOfTheFabric) {
  const auto port = NewPort();
  EXPECT_EQ(BlockOf(*port), 5u);
  EXPECT_EQ(port->mtu(), 4'200u);
  EXPECT_EQ(port->mac(), (transport::MacAddress{2, 0x75, 127, 0, 0, 1}));
  EXPECT_TRUE(port->link_up());
  EXPECT_TRUE(port->active());
  EXPECT_TRUE(uroced_->client(5).said.hello.ip.IsZero()) << "any fabric will do";
}

TEST_F(FabricPortTest, AttachWithoutDaemonSuggestsUroceRun) {
  uroced_.reset();
  FabricPort port(OptionsWithIp(Gid::FromIpv4({127, 0, 0, 1})));
  const auto error = port.Attach();
  ASSERT_TRUE(error.has_value());
  EXPECT_NE(error->sentence.find("uroce run"), std::string::npos) << error->sentence;
  EXPECT_NE(error->sentence.find(fabric_), std::string::npos) << error->sentence;
}

TEST_F(FabricPortTest, RefusalIsUrocedsSentence) {
  uroced_->RefuseWith("come back tomorrow");
  FabricPort port(OptionsWithIp(Gid::FromIpv4({127, 0, 0, 1})));
  std::atomic<bool> is_done = false;
  std::optional<Error> error;
  std::thread attaching([&] {
    error = port.Attach();
    is_done = true;
  });
  while (!is_done) uroced_->Serve();
  attaching.join();
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->sentence, "come back tomorrow");
}

TEST_F(FabricPortTest, PreparedPathCarriesFramesBothWays) {
  const auto a = NewPort(), b = NewPort();
  Link(*a, *b);
  EXPECT_TRUE(SendByte(*a, *b, 10));
  EXPECT_TRUE(SendByte(*b, *a, 20));
  EXPECT_EQ(Take(*b), (Taken{10, RouteTo(*a)}));
  EXPECT_EQ(Take(*a), (Taken{20, RouteTo(*b)}));
  EXPECT_EQ(TakeByte(*a), -1);
  EXPECT_EQ(uroced_->client(BlockOf(*b)).requests.size(), 0u);
}

// The progress thread sleeps while an application thread makes a pass and then goes to sleep, too.
TEST_F(FabricPortTest, PassOfAnotherThreadKeepsTheSleepersWakeUp) {
  const auto a = NewPort(), b = NewPort();
  Link(*a, *b);
  ASSERT_TRUE(b->BeginSleep());
  EXPECT_TRUE(SendByte(*a, *b, 10));
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_TRUE(IsReadable(b->wait_fd()));
    b->ServeLink();
  }
  EXPECT_EQ(TakeByte(*b), 10);
  EXPECT_TRUE(SendByte(*a, *b, 20));
  EXPECT_TRUE(IsReadable(b->wait_fd())) << "the second frame would not be received";
  b->EndSleep();
  EXPECT_EQ(TakeByte(*b), 20);
  ASSERT_TRUE(b->BeginSleep());
  EXPECT_FALSE(IsReadable(b->wait_fd()));
}

TEST_F(FabricPortTest, ConsumerThatLeavesAFrameIsWokenAgain) {
  const auto a = NewPort(), b = NewPort();
  Link(*a, *b);
  ASSERT_TRUE(b->BeginSleep());
  EXPECT_TRUE(SendByte(*a, *b, 10));
  b->EndSleep();  // without receiving, as after a lost wake-up
  EXPECT_FALSE(IsReadable(b->wait_fd()));
  a->ServeLink();
  EXPECT_FALSE(IsReadable(b->wait_fd())) << "it may still be about to receive";
  a->ServeLink();
  EXPECT_TRUE(IsReadable(b->wait_fd()));
}

TEST_F(FabricPortTest, FirstFrameRequestsTheLinkAndWaits) {
  const auto a = NewPort(), b = NewPort();
  EXPECT_TRUE(SendByte(*a, *b, 1));
  EXPECT_TRUE(SendByte(*a, *b, 2));
  EXPECT_EQ(TakeByte(*b), -1);
  ServeAll(*a, *b);
  EXPECT_TRUE(SendByte(*a, *b, 3));
  for (const int value : {1, 2, 3}) EXPECT_EQ(Take(*b), (Taken{value, RouteTo(*a)}));
  EXPECT_EQ(uroced_->client(BlockOf(*a)).requests, std::vector<Block>{BlockOf(*b)});
  EXPECT_EQ(a->counters().transmit_dropped_no_link, 0u);
  EXPECT_EQ(a->counters().transmit_dropped_link_pending, 0u);
}

TEST_F(FabricPortTest, FramesThatWaitGoByTheLinkThatTheOtherOffersMeanwhile) {
  const auto a = NewPort(), b = NewPort();
  EXPECT_TRUE(SendByte(*a, *b, 1));
  EXPECT_TRUE(SendByte(*b, *a, 2));
  ServeAll(*a, *b);
  EXPECT_EQ(TakeByte(*b), 1);
  EXPECT_EQ(TakeByte(*a), 2);
}

TEST_F(FabricPortTest, OnlySoManyFramesWaitAndTheRestFindsNoRoom) {
  const auto a = NewPort(), b = NewPort();
  uroced_->ignores_links = true;
  for (size_t i = 0; i < WaitingFrames::kMaxFramesOfOne; ++i) ASSERT_TRUE(SendByte(*a, *b, 1));
  EXPECT_FALSE(SendByte(*a, *b, 1));
  EXPECT_EQ(a->counters().transmit_dropped_link_pending, 0u);
}

TEST_F(FabricPortTest, FramesThatWaitedForNothingAreCounted) {
  const auto a = NewPort();
  EXPECT_TRUE(SendByte(*a, transport::RouteToBlock(900), 1));
  EXPECT_TRUE(SendByte(*a, transport::RouteToBlock(900), 1));
  ServeAll(*a);
  EXPECT_EQ(a->counters().transmit_dropped_no_link, 2u);
}

TEST_F(FabricPortTest, FirstFrameIsReceivedThoughTheAskerHasNoAnswerYet) {
  const auto a = NewPort(), b = NewPort();
  EXPECT_EQ(a->PreparePath(PathTo(*b)), PathState::kPending);
  uroced_->Serve();
  b->ServeLink();
  EXPECT_TRUE(SendByte(*b, *a, 3));
  EXPECT_EQ(TakeByte(*a), 3);
}

TEST_F(FabricPortTest, UnassignedBlockIsUnreachableAndSwallowsFrames) {
  const auto a = NewPort();
  PacketPort::Path path = PathTo(*a);
  path.route = transport::RouteToBlock(900);
  EXPECT_EQ(PrepareUntilAnswered(*a, path, [&] { ServeAll(*a); }), PathState::kUnreachable);
  EXPECT_TRUE(SendByte(*a, path.route, 1));
  EXPECT_EQ(a->counters().transmit_dropped_no_link, 1u);
  usleep(15'000);
  EXPECT_EQ(a->PreparePath(path), PathState::kPending) << "asked anew";
}

TEST_F(FabricPortTest, LimitOfLinksIsARefusal) {
  const auto a = NewPort(), b = NewPort();
  uroced_->link_error = [](Block, Block) { return ENOSPC; };
  EXPECT_EQ(PrepareUntilAnswered(*a, PathTo(*b), [&] { ServeAll(*a, *b); }), PathState::kRefused);
}

TEST_F(FabricPortTest, LinkToItselfOrToAnInvalidBlockIsRefused) {
  const auto a = NewPort();
  PacketPort::Path path = PathTo(*a);
  for (const Block block : {BlockOf(*a), Block{0}, transport::kQpnBlocks - 1}) {
    path.route = transport::RouteToBlock(block);
    EXPECT_EQ(a->PreparePath(path), PathState::kUnreachable) << block;
    EXPECT_TRUE(SendByte(*a, path.route, 1)) << block;
  }
  EXPECT_EQ(a->counters().transmit_dropped_no_link, 3u);
  ServeAll(*a);
  EXPECT_TRUE(uroced_->client(BlockOf(*a)).requests.empty());
}

// A uroced that gets no processor answers late.
TEST_F(FabricPortTest, FramesWaitForAnAnswerAsLongAsUrocedLives) {
  const auto a = NewPort(), b = NewPort();
  uroced_->ignores_links = true;
  EXPECT_TRUE(SendByte(*a, *b, 1));
  usleep(1'200'000);  // longer than frames wait without uroced
  ServeAll(*a, *b);
  EXPECT_EQ(a->counters().transmit_dropped_no_link, 0u);
  EXPECT_FALSE(a->HasAnswered(RouteTo(*b), transport::Time{1}, transport::Time{2}));
  uroced_.reset();
  ServeAll(*a, *b);
  EXPECT_TRUE(a->HasAnswered(RouteTo(*b), transport::Time{1}, transport::Time{2}));
  while (a->counters().transmit_dropped_no_link == 0) {
    ServeAll(*a, *b);
    usleep(1'000);
  }
  EXPECT_EQ(PrepareUntilAnswered(*a, PathTo(*b), [&] { ServeAll(*a, *b); }),
            PathState::kUnreachable);
}

TEST_F(FabricPortTest, TwoThatAskForEachOtherAtTheSameMomentHaveOneLink) {
  for (int round = 0; round < 20; ++round) {
    const auto a = NewPort(), b = NewPort();
    EXPECT_EQ(a->PreparePath(PathTo(*b)), PathState::kPending);
    EXPECT_EQ(b->PreparePath(PathTo(*a)), PathState::kPending);
    ServeAll(*a, *b);
    EXPECT_EQ(a->PreparePath(PathTo(*b)), PathState::kReady);
    EXPECT_EQ(b->PreparePath(PathTo(*a)), PathState::kReady);
    EXPECT_TRUE(SendByte(*a, *b, 10));
    EXPECT_TRUE(SendByte(*b, *a, 20));
    EXPECT_EQ(TakeByte(*b), 10);
    EXPECT_EQ(TakeByte(*a), 20);
  }
}

TEST_F(FabricPortTest, FramesSentBeforeTheEndAreReceived) {
  const auto a = NewPort();
  auto b = NewPort();
  Link(*a, *b);
  const PacketPort::Path path = PathTo(*b);
  for (uint8_t i = 0; i < 100; ++i) SendByte(*b, *a, i);
  b.reset();
  for (int i = 0; i < 100; ++i) {
    if (i % 10 == 0) a->ServeLink();
    ASSERT_EQ(TakeByte(*a), i);
  }
  EXPECT_TRUE(SendByte(*a, path.route, 1));
  EXPECT_EQ(a->counters().transmit_dropped_no_link, 1u) << "as to a dead host";
  uroced_->Serve();
  EXPECT_EQ(PrepareUntilAnswered(*a, path, [&] { ServeAll(*a); }), PathState::kUnreachable);
}

TEST_F(FabricPortTest, NewProcessWithTheBlockOfADeadOneIsLinkedAnew) {
  const auto a = NewPort();
  auto b = NewPort();
  Link(*a, *b);
  b.reset();
  ServeAll(*a);
  uroced_->GiveOutNext(6);
  b = NewPort();
  ASSERT_EQ(BlockOf(*b), 6u);
  EXPECT_EQ(b->PreparePath(PathTo(*a)), PathState::kPending);
  ServeAll(*a, *b);
  EXPECT_EQ(a->PreparePath(PathTo(*b)), PathState::kReady);
  EXPECT_TRUE(SendByte(*a, *b, 7));
  EXPECT_EQ(TakeByte(*b), 7);
}

TEST_F(FabricPortTest, PeerHasAnsweredOnceItHasReadAndSaysSo) {
  const auto a = NewPort(), b = NewPort();
  Link(*a, *b);
  const Route to_b = RouteTo(*b);
  EXPECT_TRUE(SendByte(*a, *b, 1));
  EXPECT_FALSE(a->HasAnswered(to_b, transport::Time{10}, transport::Time{20}));
  EXPECT_EQ(TakeByte(*b), 1);
  EXPECT_FALSE(a->HasAnswered(to_b, transport::Time{10}, transport::Time{30}));
  b->TellAnswered(RouteTo(*a));
  EXPECT_TRUE(a->HasAnswered(to_b, transport::Time{10}, transport::Time{40}));
  EXPECT_FALSE(a->HasAnswered(to_b, transport::Time{40}, transport::Time{40}));
}

TEST_F(FabricPortTest, AnswerThatLiesUnreadHasNotArrived) {
  const auto a = NewPort(), b = NewPort();
  Link(*a, *b);
  EXPECT_TRUE(SendByte(*b, *a, 1));
  EXPECT_FALSE(a->HasAnswered(RouteTo(*b), transport::Time{10}, transport::Time{20}));
  EXPECT_EQ(TakeByte(*a), 1);
  EXPECT_TRUE(a->HasAnswered(RouteTo(*b), transport::Time{10}, transport::Time{20}));
}

TEST_F(FabricPortTest, LinkWhoseEndSpoilsFramesTellsNothing) {
  const auto a = NewPort();
  icrc_ = transport::IcrcUse::kCarried;
  auto spoiler = NewPort();
  Link(*a, *spoiler);
  const Route route = RouteTo(*spoiler);
  EXPECT_TRUE(SendByte(*a, route, 1));
  EXPECT_TRUE(a->HasAnswered(route, transport::Time{10}, transport::Time{20}));
  spoiler.reset();
  ServeAll(*a);
  EXPECT_EQ(a->TakeGonePeer(), std::nullopt);
}

// Whether `port` reports that the process has ended, which it does after a moment.
bool TakeGonePeer(FabricPort& port, transport::Route route) {
  const transport::Time give_up = Now() + transport::Milliseconds(10'000);
  while (Now() < give_up) {
    port.ServeLink();
    if (const auto gone = port.TakeGonePeer()) return gone == route;
  }
  return false;
}

TEST_F(FabricPortTest, ProcessThatEndedIsGoneOnceAllItSentIsRead) {
  const auto a = NewPort();
  auto b = NewPort();
  Link(*a, *b);
  const Route to_b = RouteTo(*b);
  EXPECT_TRUE(SendByte(*b, *a, 1));
  b.reset();
  ServeAll(*a);
  EXPECT_EQ(a->TakeGonePeer(), std::nullopt);
  EXPECT_EQ(TakeByte(*a), 1);
  const transport::Time read_at = Now();
  ServeAll(*a);
  EXPECT_FALSE(a->BeginSleep()) << "nothing would wake it when the time has come";
  EXPECT_TRUE(TakeGonePeer(*a, to_b));
  EXPECT_GE(Now() - read_at, transport::Milliseconds(15)) << "completions come before errors";
  EXPECT_EQ(a->TakeGonePeer(), std::nullopt);
  EXPECT_TRUE(a->HasAnswered(to_b, transport::Time{1}, transport::Time{2}));
}

TEST_F(FabricPortTest, FullRingIsBackPressureOfThatLinkOnly) {
  const auto a = NewPort(), b = NewPort(), c = NewPort();
  Link(*a, *b);
  Link(*a, *c);
  uint32_t sent = 0;
  while (SendByte(*a, *b, static_cast<uint8_t>(sent))) ++sent;
  EXPECT_EQ(sent, kSlots);
  EXPECT_TRUE(SendByte(*a, *c, 1));
  for (uint32_t i = 0; i < sent; ++i) ASSERT_EQ(TakeByte(*b), static_cast<uint8_t>(i));
  b->Flush();
  EXPECT_TRUE(SendByte(*a, *b, 1));
  EXPECT_EQ(a->counters().transmit_dropped_no_link, 0u);
}

TEST_F(FabricPortTest, LinksGoWithoutIcrcIfBothEndsCan) {
  using transport::IcrcUse;
  const auto a = NewPort(), b = NewPort();
  icrc_ = IcrcUse::kCarried;
  const auto impaired = NewPort();
  EXPECT_EQ(a->AcquireTransmit(RouteTo(*b)).icrc, IcrcUse::kCarried) << "there is no link yet";
  Link(*a, *b);
  Link(*a, *impaired);
  const auto check = [&](FabricPort& from, FabricPort& to) {
    EXPECT_TRUE(SendByte(from, to, 1));
    const Taken taken = Take(to);
    EXPECT_EQ(taken.value, 1);
    return std::pair(from.AcquireTransmit(RouteTo(to)).icrc, taken.icrc);
  };
  EXPECT_EQ(check(*a, *b), std::pair(IcrcUse::kWaived, IcrcUse::kWaived));
  EXPECT_EQ(check(*b, *a), std::pair(IcrcUse::kWaived, IcrcUse::kWaived));
  EXPECT_EQ(check(*a, *impaired), std::pair(IcrcUse::kCarried, IcrcUse::kCarried));
  EXPECT_EQ(check(*impaired, *a), std::pair(IcrcUse::kCarried, IcrcUse::kCarried));
}

// A port with links to many peers.
class ManyLinksTest : public FabricPortTest {
 protected:
  static constexpr size_t kPeers = 8;

  ManyLinksTest() {
    for (size_t i = 0; i < kPeers; ++i) {
      peers_.push_back(NewPort());
      Link(*port_, *peers_.back());
    }
  }

  const std::unique_ptr<FabricPort> port_ = NewPort();
  std::vector<std::unique_ptr<FabricPort>> peers_;
};

TEST_F(ManyLinksTest, EveryLinkIsReceivedFromInTurn) {
  for (int i = 0; i < 3; ++i) {
    for (size_t peer = 0; peer < kPeers; ++peer) {
      SendByte(*peers_[peer], *port_, static_cast<uint8_t>(peer));
    }
  }
  std::vector<int> frames(kPeers);
  for (size_t i = 0; i < 3 * kPeers; ++i) {
    const Taken taken = Take(*port_);
    ASSERT_GE(taken.value, 0);
    const auto peer = static_cast<size_t>(taken.value);
    EXPECT_EQ(taken.from, RouteTo(*peers_[peer]));
    ++frames[peer];
  }
  EXPECT_EQ(frames, std::vector<int>(kPeers, 3));
  EXPECT_EQ(TakeByte(*port_), -1);
}

TEST_F(ManyLinksTest, PollingFindsTheFirstFrameOnAnIdleLink) {
  for (size_t peer = 0; peer < kPeers; ++peer) {
    LetLinksGetIdle(*port_);
    SendByte(*peers_[peer], *port_, static_cast<uint8_t>(peer));
    EXPECT_EQ(TakeAtOnce(*port_).value, -1) << "idle links are not polled in every pass";
    ASSERT_EQ(TakeByte(*port_), static_cast<int>(peer));
    SendByte(*peers_[peer], *port_, 100);
    EXPECT_EQ(TakeAtOnce(*port_).value, 100) << "not idle any more";
  }
}

// This also holds if the port's frame before went by the same link.
TEST_F(ManyLinksTest, IdleLinkIsPolledInEveryPassAfterASend) {
  SendByte(*port_, *peers_[3], 1);
  ServeAll(*port_);
  LetLinksGetIdle(*port_);
  SendByte(*peers_[3], *port_, 2);
  EXPECT_EQ(TakeAtOnce(*port_).value, -1) << "it is idle";
  SendByte(*port_, *peers_[3], 3);
  EXPECT_EQ(TakeAtOnce(*port_).value, 2);
}

TEST_F(ManyLinksTest, BusyLinkDoesNotStarveOtherLinks) {
  LetLinksGetIdle(*port_);
  const auto keep_full = [&] {
    while (SendByte(*peers_[0], *port_, 0)) {
    }
  };
  keep_full();
  SendByte(*peers_[1], *port_, 1);
  bool found = false;
  for (int pass = 0; pass < 50 && !found; ++pass) {
    port_->BeginReceiveBurst();
    for (int burst = 0; burst < 32; ++burst) found |= TakeAtOnce(*port_).value == 1;
    port_->Flush();
    keep_full();
  }
  EXPECT_TRUE(found);
}

TEST_F(ManyLinksTest, SleeperIsWokenByAnyLinkAndByNothingElse) {
  LetLinksGetIdle(*port_);
  for (size_t peer = 0; peer < kPeers; ++peer) {
    ASSERT_TRUE(port_->BeginSleep());
    EXPECT_FALSE(IsReadable(port_->wait_fd()));
    SendByte(*peers_[peer], *port_, static_cast<uint8_t>(peer));
    EXPECT_TRUE(IsReadable(port_->wait_fd()));
    port_->EndSleep();
    EXPECT_FALSE(IsReadable(port_->wait_fd()));
    EXPECT_EQ(TakeAtOnce(*port_).value, static_cast<int>(peer)) << "at once";
  }
}

TEST_F(ManyLinksTest, NoThreadSleepsWhileAFrameWaits) {
  for (const bool idle : {false, true}) {
    if (idle) LetLinksGetIdle(*port_);
    SendByte(*peers_[3], *port_, 3);
    EXPECT_FALSE(port_->BeginSleep());
    EXPECT_EQ(TakeAtOnce(*port_).value, 3) << "at once";
  }
}

TEST_F(ManyLinksTest, ProcessThatDidNotFallAsleepIsNotWoken) {
  SendByte(*peers_[3], *port_, 3);
  EXPECT_FALSE(port_->BeginSleep());
  EXPECT_EQ(TakeByte(*port_), 3);
  for (const auto& peer : peers_) SendByte(*peer, *port_, 1);
  EXPECT_FALSE(IsReadable(port_->wait_fd()));
}

TEST_F(ManyLinksTest, LongSleepMakesNoUsedLinkIdle) {
  ASSERT_TRUE(port_->BeginSleep());
  usleep(15'000);
  SendByte(*peers_[5], *port_, 5);
  port_->EndSleep();
  EXPECT_EQ(TakeAtOnce(*port_).value, 5);
}

TEST_F(FabricPortTest, SleeperIsWokenByPeersThatComeAndGo) {
  const auto a = NewPort();
  auto b = NewPort();
  a->EndSleep();
  ASSERT_TRUE(a->BeginSleep());
  EXPECT_EQ(b->PreparePath(PathTo(*a)), PathState::kPending);
  uroced_->Serve();
  EXPECT_TRUE(IsReadable(a->wait_fd())) << "an offer";
  a->EndSleep();
  ASSERT_TRUE(a->BeginSleep());
  EXPECT_FALSE(IsReadable(a->wait_fd()));
  const Route to_b = RouteTo(*b);
  b.reset();
  EXPECT_TRUE(IsReadable(a->wait_fd()));
  a->EndSleep();
  EXPECT_TRUE(TakeGonePeer(*a, to_b));
  ASSERT_TRUE(a->BeginSleep());
  EXPECT_FALSE(IsReadable(a->wait_fd()));
}

// One thread sleeps while another serves the port and handles the event that would have woken the
// sleeper.
TEST_F(FabricPortTest, FirstFrameOfALinkAcceptedByAnotherThreadWakesTheSleeper) {
  const auto a = NewPort(), b = NewPort();
  ASSERT_TRUE(a->BeginSleep());
  EXPECT_EQ(b->PreparePath(PathTo(*a)), PathState::kPending);
  ServeAll(*a, *b);
  EXPECT_TRUE(IsReadable(a->wait_fd())) << "it does not know yet of the link";
  a->EndSleep();
  ASSERT_TRUE(a->BeginSleep());
  EXPECT_FALSE(IsReadable(a->wait_fd()));
  SendByte(*b, *a, 5);
  EXPECT_TRUE(IsReadable(a->wait_fd()));
  a->EndSleep();
  EXPECT_EQ(TakeByte(*a), 5);
}

TEST_F(FabricPortTest, SleeperIsWokenForAFrameThatWasInTheRingAlready) {
  const auto a = NewPort();
  ASSERT_TRUE(a->BeginSleep());
  auto offer = RingLink::Create();
  offer->link->Acquire()[0] = 8;
  offer->link->Commit(62);
  uroced_->client(BlockOf(*a))
      .channel.Send(control::LinkOffer{900},
                    std::array<int, 2>{offer->memory.get(), offer->socket.get()});
  offer->socket.reset();
  a->ServeLink();
  EXPECT_TRUE(IsReadable(a->wait_fd()));
  a->EndSleep();
  EXPECT_FALSE(IsReadable(a->wait_fd()));
  EXPECT_EQ(TakeByte(*a), 8);
}

TEST_F(FabricPortTest, ForkedChildKeepsNothingAlive) {
  auto a = NewPort();
  const auto b = NewPort();
  Link(*a, *b);
  const Block block = BlockOf(*a);
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const pid_t child = fork();
  if (child == 0) {
    a->AbandonAfterFork();
    char byte;
    close(pipe_fds[1]);
    _exit(static_cast<int>(read(pipe_fds[0], &byte, 1)));  // lives until the parent's end closes
  }
  close(pipe_fds[0]);
  // The child may not have run yet; until then its copies keep the descriptors open.
  a.reset();
  pollfd poll_fd{b->wait_fd(), POLLIN, 0};
  ASSERT_EQ(poll(&poll_fd, 1, 10'000), 1);
  while (uroced_->has_client(block)) uroced_->Serve();
  close(pipe_fds[1]);
  waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace uroce::nic
