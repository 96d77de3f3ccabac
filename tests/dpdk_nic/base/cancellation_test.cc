// System calls that application threads make inside verbs are no cancellation points.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "dpdk_nic/base/background_thread.h"
#include "dpdk_nic/base/cancellation_guard.h"
#include "dpdk_nic/base/log.h"
#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/control/message_channel.h"
#include "dpdk_nic/engine/engine_lock.h"
#include "dpdk_nic/engine/polling_pause.h"
#include "dpdk_nic/link_layer/rtnetlink.h"
#include "dpdk_nic/port/ring/ring_link.h"
#include "tests/dpdk_nic/base/cancelled_thread.h"

namespace uroce::nic {
namespace {

TEST(CancellationTest, GuardPutsTheCancellationOff) {
  bool reached_end_of_guard = false;
  EXPECT_FALSE(OutlivesCancellation([&] {
    {
      const CancellationGuard guard;
      const CancellationGuard inner;
      usleep(0);
      reached_end_of_guard = true;
    }
    usleep(0);
  }));
  EXPECT_TRUE(reached_end_of_guard);
}

TEST(CancellationTest, GuardLeavesAThreadThatCannotBeCancelledAsItIs) {
  EXPECT_TRUE(OutlivesCancellation([] {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
    { const CancellationGuard guard; }
    usleep(0);
  }));
}

TEST(CancellationTest, LogLine) {
  EXPECT_TRUE(OutlivesCancellation([] { Log(LogLevel::kError, "a line of a test"); }));
}

TEST(CancellationTest, ClosedDescriptor) {
  UniqueFd fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(OutlivesCancellation([&] { fd.reset(); }));
}

TEST(CancellationTest, WakeUpOfABackgroundThread) {
  BackgroundThread thread;
  EXPECT_TRUE(OutlivesCancellation([&] { thread.Wake(); }));
}

TEST(CancellationTest, WaitForTheEngineLock) {
  EXPECT_TRUE(OutlivesCancellation([] { Nap(); }));
}

TEST(CancellationTest, RefusedPolls) {
  constexpr int kMoreThanBeforeASleep = 5'000;
  EXPECT_TRUE(OutlivesCancellation([] {
    PollingPause pause;
    for (int i = 0; i < kMoreThanBeforeASleep; ++i) pause.PollRefused();
  }));
}

TEST(CancellationTest, MessagesToAndFromUroced) {
  std::array<int, 2> ends;
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  control::MessageChannel channel{UniqueFd(ends[0])};
  const UniqueFd peer(ends[1]);
  EXPECT_TRUE(OutlivesCancellation([&] {
    control::MessageChannel::Incoming message;
    channel.Send(control::Resolve{});
    channel.Receive(message);
  }));
}

TEST(CancellationTest, WakeUpsOfALink) {
  auto offer = RingLink::Create();
  ASSERT_TRUE(offer);
  auto peer = RingLink::Accept(std::move(offer->memory), std::move(offer->socket));
  ASSERT_NE(peer, nullptr);
  ASSERT_TRUE(peer->BeginSleep());
  EXPECT_TRUE(OutlivesCancellation([&] {
    ASSERT_FALSE(offer->link->Acquire().empty());
    offer->link->Commit(1);
    offer->link->Flush();
    EXPECT_TRUE(offer->link->peer_alive());
  }));
  std::array<char, 2> wake_ups;
  EXPECT_EQ(recv(peer->socket(), wake_ups.data(), wake_ups.size(), MSG_DONTWAIT), 1);
}

TEST(CancellationTest, QuestionsToTheKernel) {
  EXPECT_TRUE(OutlivesCancellation([] {
    RtnetlinkSocket socket;
    RtnetlinkRequest request(RTM_GETLINK, NLM_F_DUMP, ifinfomsg{});
    EXPECT_TRUE(socket.Send(request));
    EXPECT_TRUE(socket.Receive().has_value());
  }));
}

}  // namespace
}  // namespace uroce::nic
