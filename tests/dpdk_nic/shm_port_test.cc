#include "dpdk_nic/shm_port.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/dpdk_nic/link_names.h"

namespace uroce::nic {
namespace {

std::unique_ptr<ShmPort> NewPort(const std::string& link) {
  return std::make_unique<ShmPort>(link, transport::MacAddress{2, 0x75, 127, 0, 0, 1}, 4'200);
}

bool SendByte(ShmPort& port, uint8_t value) {
  const std::span<uint8_t> room = port.AcquireTransmit(transport::Route::kWire);
  if (room.empty()) return false;
  room[0] = value;
  port.CommitTransmit(62);
  port.Flush();
  return true;
}

// The first byte of the next frame, or -1.
int TakeByte(ShmPort& port) {
  const std::span<const uint8_t> frame = port.Receive().bytes;
  if (frame.empty()) return -1;
  const int value = frame[0];
  port.ReleaseReceived();
  return value;
}

bool IsReadable(int fd) {
  pollfd poll_fd{fd, POLLIN, 0};
  return poll(&poll_fd, 1, 0) == 1;
}

void ServeBoth(ShmPort& a, ShmPort& b) {
  for (int i = 0; i < 4; ++i) {
    a.ServeLink();
    b.ServeLink();
  }
}

class ShmPortTest : public ::testing::Test {
 protected:
  void JoinBoth() {
    ASSERT_EQ(a_->Join().value(), 0);
    ASSERT_EQ(b_->Join().value(), 1);
    ServeBoth(*a_, *b_);
    ASSERT_TRUE(a_->link_up());
    ASSERT_TRUE(b_->link_up());
  }

  const std::string link_ = UniqueLinkName();
  std::unique_ptr<ShmPort> a_ = NewPort(link_);
  std::unique_ptr<ShmPort> b_ = NewPort(link_);
};

TEST_F(ShmPortTest, PortThatHasNotJoinedTakesNoSide) {
  EXPECT_FALSE(ProbeLink(link_).has_value());
  EXPECT_TRUE(SendByte(*a_, 1));
  EXPECT_EQ(a_->counters().transmit_dropped_no_link, 1u);
  EXPECT_EQ(b_->Join().value(), 0);
}

TEST_F(ShmPortTest, FramesGoBothWays) {
  JoinBoth();
  SendByte(*a_, 10);
  SendByte(*b_, 20);
  EXPECT_EQ(TakeByte(*b_), 10);
  EXPECT_EQ(TakeByte(*a_), 20);
  EXPECT_EQ(TakeByte(*a_), -1);
}

TEST_F(ShmPortTest, ThirdPortIsToldThatTheLinkIsBusy) {
  JoinBoth();
  const auto side = NewPort(link_)->Join();
  ASSERT_FALSE(side.ok());
  EXPECT_NE(side.error().find(link_), std::string::npos);
  EXPECT_NE(side.error().find("--link"), std::string::npos);
  EXPECT_TRUE(ProbeLink(link_).has_value());

  SendByte(*a_, 1);  // and the two are not disturbed
  ServeBoth(*a_, *b_);
  EXPECT_EQ(TakeByte(*b_), 1);
  EXPECT_TRUE(a_->link_up());
}

TEST_F(ShmPortTest, ProbeLeavesALonelyPortJoinable) {
  ASSERT_TRUE(a_->Join().ok());
  EXPECT_FALSE(ProbeLink(link_).has_value());
  a_->ServeLink();
  EXPECT_FALSE(a_->link_up());
  ASSERT_EQ(b_->Join().value(), 1);
  ServeBoth(*a_, *b_);
  EXPECT_TRUE(a_->link_up());
}

TEST_F(ShmPortTest, WhatWasSentBeforeTheEndIsStillReceived) {
  JoinBoth();
  for (uint8_t i = 0; i < 100; ++i) SendByte(*a_, i);
  a_.reset();
  for (int i = 0; i < 100; ++i) {
    if (i % 10 == 0) b_->ServeLink();
    ASSERT_EQ(TakeByte(*b_), i);
  }
  EXPECT_EQ(TakeByte(*b_), -1);
  EXPECT_FALSE(b_->link_up());
}

// Either side may end first; the one that comes gets the number that became free.
class ShmPortRejoinTest : public ShmPortTest, public ::testing::WithParamInterface<int> {};

TEST_P(ShmPortRejoinTest, NewPortTakesTheFreeSide) {
  JoinBoth();
  std::unique_ptr<ShmPort>& leaver = GetParam() == 0 ? a_ : b_;
  ShmPort& survivor = GetParam() == 0 ? *b_ : *a_;
  for (int round = 0; round < 20; ++round) {
    SendByte(*leaver, 1);  // stays unread until the link is down
    leaver.reset();
    if (round % 2 == 0) {
      survivor.ServeLink();
      ASSERT_FALSE(survivor.link_up());
      SendByte(survivor, 2);
      ASSERT_EQ(survivor.counters().transmit_dropped_no_link, 1u + round / 2);
    }
    leaver = NewPort(link_);
    ASSERT_EQ(leaver->Join().value(), GetParam());
    ASSERT_EQ(TakeByte(survivor), 1);
    ServeBoth(survivor, *leaver);
    ASSERT_TRUE(survivor.link_up());
    ASSERT_TRUE(leaver->link_up());

    SendByte(survivor, 3);
    SendByte(*leaver, 4);
    ASSERT_EQ(TakeByte(*leaver), 3);
    ASSERT_EQ(TakeByte(survivor), 4);
  }
}
INSTANTIATE_TEST_SUITE_P(EitherSide, ShmPortRejoinTest, ::testing::Values(0, 1));

TEST_F(ShmPortTest, TwoThatStartAtTheSameMomentAlwaysMeet) {
  for (int round = 0; round < 200; ++round) {
    const std::string link = UniqueLinkName();
    const auto a = NewPort(link);
    const auto b = NewPort(link);
    int side_a = -1;
    std::thread other([&] { side_a = a->Join().value(); });
    const int side_b = b->Join().value();
    other.join();
    EXPECT_EQ(side_a + side_b, 1);
    ServeBoth(*a, *b);
    ASSERT_TRUE(a->link_up() && b->link_up()) << "round " << round;
  }
}

TEST_F(ShmPortTest, SleeperIsWokenByAFrameAndByNothingElse) {
  JoinBoth();
  a_->EndSleep();
  ASSERT_TRUE(a_->BeginSleep());
  EXPECT_FALSE(IsReadable(a_->wait_fd()));
  SendByte(*b_, 5);
  EXPECT_TRUE(IsReadable(a_->wait_fd()));
  a_->EndSleep();
  EXPECT_FALSE(IsReadable(a_->wait_fd()));
  EXPECT_EQ(TakeByte(*a_), 5);
}

TEST_F(ShmPortTest, SleeperIsWokenByTheOtherSideComingAndGoing) {
  ASSERT_TRUE(a_->Join().ok());
  ASSERT_TRUE(a_->BeginSleep());
  ASSERT_TRUE(b_->Join().ok());
  EXPECT_TRUE(IsReadable(a_->wait_fd()));
  a_->EndSleep();
  ServeBoth(*a_, *b_);
  ASSERT_TRUE(a_->BeginSleep());
  EXPECT_FALSE(IsReadable(a_->wait_fd()));
  b_.reset();
  EXPECT_TRUE(IsReadable(a_->wait_fd()));
  a_->EndSleep();
  EXPECT_FALSE(a_->link_up());
  EXPECT_FALSE(IsReadable(a_->wait_fd()));
}

// One thread sleeps, another serves the link: what would have woken the sleeper is done already.
TEST_F(ShmPortTest, SleeperIsWokenByTheFirstFrameOfAPeerThatSomebodyElseLetIn) {
  ASSERT_TRUE(a_->Join().ok());
  ASSERT_TRUE(a_->BeginSleep());
  ASSERT_TRUE(b_->Join().ok());
  ServeBoth(*a_, *b_);
  ASSERT_TRUE(a_->link_up() && b_->link_up());
  EXPECT_FALSE(IsReadable(a_->wait_fd()));
  SendByte(*b_, 5);
  EXPECT_TRUE(IsReadable(a_->wait_fd()));
  a_->EndSleep();
  EXPECT_EQ(TakeByte(*a_), 5);
}

TEST_F(ShmPortTest, SleeperOnSide1IsWokenWhenSide0ComesBack) {
  JoinBoth();
  a_.reset();
  b_->EndSleep();
  ASSERT_TRUE(b_->BeginSleep());
  EXPECT_FALSE(IsReadable(b_->wait_fd()));
  a_ = NewPort(link_);
  ASSERT_EQ(a_->Join().value(), 0);
  EXPECT_TRUE(IsReadable(b_->wait_fd()));
  b_->EndSleep();
  ServeBoth(*a_, *b_);
  EXPECT_TRUE(b_->link_up());
}

TEST_F(ShmPortTest, SleepIsRefusedWhileAFrameWaits) {
  JoinBoth();
  SendByte(*b_, 5);
  EXPECT_FALSE(a_->BeginSleep());
}

TEST_F(ShmPortTest, FullRingIsBackPressureNotLoss) {
  JoinBoth();
  uint32_t sent = 0;
  while (SendByte(*a_, static_cast<uint8_t>(sent))) ++sent;
  EXPECT_EQ(sent, kSlots);
  for (uint32_t i = 0; i < sent; ++i) ASSERT_EQ(TakeByte(*b_), static_cast<uint8_t>(i));
  b_->Flush();
  EXPECT_TRUE(SendByte(*a_, 1));
  EXPECT_EQ(a_->counters().transmit_dropped_no_link, 0u);
}

// A connection to a side of the link, as anybody could make one.
UniqueFd StrayConnection(const std::string& link, int side) {
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name =
      "uroce-link-1/" + std::to_string(geteuid()) + "/" + link + "/" + std::to_string(side);
  memcpy(address.sun_path + 1, name.data(), name.size());
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address),
                    static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())),
            0);
  return fd;
}

TEST_F(ShmPortTest, ConnectionsThatSayNothingOrNonsenseDisturbNobody) {
  ASSERT_TRUE(a_->Join().ok());
  const UniqueFd silent = StrayConnection(link_, 0);
  const UniqueFd nonsense = StrayConnection(link_, 0);
  ASSERT_EQ(send(nonsense.get(), "nonsense", 8, 0), 8);
  a_->ServeLink();
  EXPECT_FALSE(a_->link_up());
  ASSERT_TRUE(b_->Join().ok());
  ServeBoth(*a_, *b_);
  EXPECT_TRUE(a_->link_up() && b_->link_up());
}

TEST_F(ShmPortTest, ForkedChildDoesNotKeepTheLinkAlive) {
  JoinBoth();
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const pid_t child = fork();
  if (child == 0) {
    a_->AbandonAfterFork();
    char byte;
    close(pipe_fds[1]);
    _exit(static_cast<int>(read(pipe_fds[0], &byte, 1)));  // lives until the parent's end closes
  }
  close(pipe_fds[0]);
  // The child may not have run yet: its copies of the descriptors still count until it has.
  a_.reset();
  pollfd poll_fd{b_->wait_fd(), POLLIN, 0};
  ASSERT_EQ(poll(&poll_fd, 1, 10'000), 1);
  b_->EndSleep();
  EXPECT_FALSE(b_->link_up());
  close(pipe_fds[1]);
}

}  // namespace
}  // namespace uroce::nic
