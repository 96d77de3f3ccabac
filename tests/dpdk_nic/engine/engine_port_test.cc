// The engine's use of its port: routes in turn, a port without room, groups, fork.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <thread>
#include <vector>

#include "tests/dpdk_nic/engine/engine_port_fixture.h"
#include "tests/dpdk_nic/engine/thread_state.h"

namespace uroce::nic {
namespace {

using transport::Endpoint;
using transport::Gid;
using transport::QpState;
using transport::Route;
using transport::Status;

// Runs `f` in a child and returns its result, 0 .. 255.
template <class F>
int InChild(F f) {
  const pid_t child = fork();
  if (child == 0) _exit(f());
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST_F(EnginePortTest, RoutesThatHaveMuchToSendTakeTurns) {
  constexpr int kFrames = 200;
  constexpr int kBurst = 64;
  port_->has_room = false;
  Post(CreateQueuePair(), 7, kFrames);
  Post(CreateQueuePair(), 9, kFrames);
  engine_->WithEndpoint([&](Endpoint&) { port_->has_room = true; });
  ASSERT_TRUE(WaitUntil([&] { return port_->frames_sent == 2 * kFrames; }));

  const std::vector<Route> sent = engine_->WithEndpoint([&](Endpoint&) { return port_->sent; });
  const auto two_bursts_end = sent.begin() + 2 * kBurst;
  for (const uint32_t block : {7u, 9u}) {
    EXPECT_EQ(std::count(sent.begin(), two_bursts_end, transport::RouteToBlock(block)), kBurst);
  }
}

TEST_F(EnginePortTest, VerbFlushesOnlyIfFramesWereSent) {
  transport::QueuePair& qp = CreateQueuePair();
  const int before = port_->flushes;
  engine_->WithEndpoint([](Endpoint&) {});
  EXPECT_EQ(port_->flushes, before) << "nothing was sent";
  Post(qp, 7, 1);
  EXPECT_EQ(port_->flushes, before + 1);
  EXPECT_EQ(port_->receive_bursts, 0) << "only polling looks for what arrives";
  EXPECT_TRUE(WaitUntil([&] {  // the progress thread may be driving
    engine_->TryRunOnce();
    return port_->receive_bursts == 1;
  }));
}

// Otherwise the answers would lie in the port until the timers of their requests run out. The
// progress thread makes passes, too, as long as it sees no other thread drive.
TEST_F(EnginePortTest, ProgramThatPostsWithoutAPollReceivesFromTimeToTime) {
  transport::QueuePair& qp = CreateQueuePair();
  int posted = 0;
  ASSERT_TRUE(WaitUntil([&] {
    for (int i = 0; i < 10'000 && port_->receive_bursts == 0; ++i, ++posted) Post(qp, 7, 1);
    return port_->receive_bursts != 0;
  }));
  EXPECT_GE(posted, 256);
  for (int i = 0; i < 200; ++i) Post(qp, 7, 1);
  EXPECT_EQ(port_->receive_bursts, 1);
}

TEST_F(EnginePortTest, ProgramThatPostsToAFullPortReceivesFromTimeToTime) {
  port_->has_room = false;
  Post(CreateQueuePair(), 7, 1);
  int verbs = 1;  // the post
  ASSERT_TRUE(WaitUntil([&] {
    for (int i = 0; i < 10'000 && port_->receive_bursts == 0; ++i, ++verbs) {
      engine_->WithEndpoint([](Endpoint&) {});
    }
    return port_->receive_bursts != 0;
  }));
  EXPECT_GE(verbs, 256);
  EXPECT_EQ(port_->frames_sent, 0u);
}

TEST_F(EnginePortTest, RequestIsSentAsItIsPostedAndVisibleWhenTheVerbEnds) {
  transport::QueuePair& qp = Connect(7);
  const int before = port_->flushes;
  {
    const Engine::Verb verb(*engine_);
    ASSERT_EQ(PostWrite(verb, qp), Status::kOk);
    EXPECT_EQ(port_->frames_sent, 1u);
    ASSERT_EQ(PostWrite(verb, qp), Status::kOk);
    EXPECT_EQ(port_->frames_sent, 2u);
    EXPECT_EQ(port_->flushes, before);
  }
  EXPECT_EQ(port_->flushes, before + 1);
  EXPECT_EQ(port_->frames_sent, 2u);
}

TEST_F(EnginePortTest, RequestsBehindUnansweredOnesWaitUntilAPass) {
  ASSERT_TRUE(PostUntilOneWaits());
  EXPECT_TRUE(WaitUntil([&] {
    engine_->TryRunOnce();
    return port_->frames_flushed == port_->frames_sent;
  }));
}

TEST_F(EnginePortTest, WaitingRequestsAreSentWhenTheProgramStopsPolling) {
  ASSERT_TRUE(PostUntilOneWaits());
  EXPECT_TRUE(WaitUntil([&] { return port_->frames_flushed == port_->frames_sent; }));
}

// A program that armed a queue may fall asleep at any time, so the progress thread must go on
// driving.
TEST_F(EnginePortTest, ProgramThatAwaitsAnEventIsNotTakenForOneThatDrives) {
  ASSERT_TRUE(PollUntilFramesMayWait());
  engine_->WithEndpoint([&](Endpoint&) { cq_->Arm(transport::CompletionQueue::NotifyOn::kAny); });
  const int flushes = port_->flushes;
  ASSERT_TRUE(WaitUntil([&] {
    engine_->TryRunOnce();
    return port_->flushes != flushes;
  }));
  const int flushes_soon = port_->flushes_soon;
  for (int i = 0; i < 10'000; ++i) engine_->TryRunOnce();
  EXPECT_EQ(port_->flushes_soon, flushes_soon);
}

// This also holds if the port keeps the frame until there is a link: UCX reuses its buffers before
// it polls.
TEST_F(EnginePortTest, DatagramIsReadWhenItIsPosted) {
  transport::QueuePair& qp = CreateQueuePair();
  std::array<uint8_t, 32> buffer;
  buffer.fill(0xa5);
  const auto address = reinterpret_cast<uint64_t>(buffer.data());
  const transport::LKey key = engine_->WithEndpoint([&](Endpoint& endpoint) {
    return *endpoint.memory().Register({.pd = {1},
                                        .iova = address,
                                        .host_address = buffer.data(),
                                        .length = buffer.size(),
                                        .access = {}});
  });
  const transport::AddressVector peer = {.destination_gid = kPeerGid, .destination_mac = kPeerMac};
  const transport::ScatterGatherEntry sge = {address, buffer.size(), key};
  transport::SendWorkRequest request;
  request.remote_qpn = {7 * transport::kMaxQps + 1};
  request.address = &peer;
  request.sges = {&sge, 1};
  {
    const Engine::Verb verb(*engine_);
    ASSERT_EQ(engine_->PostSend(verb, qp, request), Status::kOk);
  }
  buffer.fill(0);
  ASSERT_EQ(port_->frames_sent, 1u);
  const auto payload = port_->last_frame().last(buffer.size() + transport::kIcrcBytes);
  for (size_t i = 0; i < buffer.size(); ++i) EXPECT_EQ(payload[i], 0xa5) << i;
}

TEST_F(EnginePortTest, RequestThatMayHaveToWaitTakesItsTurn) {
  transport::QueuePair& qp = Connect(7);
  {
    const Engine::Verb verb(*engine_);
    ASSERT_EQ(PostWrite(verb, qp, /*fence=*/true), Status::kOk);
    EXPECT_EQ(port_->frames_sent, 0u);
    ASSERT_EQ(PostWrite(verb, qp), Status::kOk) << "behind the one before";
    EXPECT_EQ(port_->frames_sent, 0u);
  }
  EXPECT_EQ(port_->frames_sent, 2u);
}

TEST_F(EnginePortTest, RequestDoesNotOvertakeFramesThatWait) {
  transport::QueuePair& waiting = CreateQueuePair();
  transport::QueuePair& qp = Connect(9);
  port_->has_room = false;
  Post(waiting, 7, 1);
  {
    const Engine::Verb verb(*engine_);
    port_->has_room = true;
    ASSERT_EQ(PostWrite(verb, qp), Status::kOk);
    EXPECT_EQ(port_->frames_sent, 0u);
  }
  const std::vector<Route> expected = {transport::RouteToBlock(7), transport::RouteToBlock(9)};
  EXPECT_EQ(engine_->WithEndpoint([&](Endpoint&) { return port_->sent; }), expected);
}

TEST_F(EnginePortTest, RequestThatFindsNoRoomIsSentLater) {
  transport::QueuePair& qp = Connect(7);
  {
    const Engine::Verb verb(*engine_);
    port_->has_room = false;
    ASSERT_EQ(PostWrite(verb, qp), Status::kOk);
  }
  EXPECT_EQ(port_->frames_sent, 0u);
  port_->has_room = true;
  EXPECT_TRUE(WaitUntil([&] { return port_->frames_sent == 1; }));
}

TEST_F(EnginePortTest, ForkedChildSendsNoRequest) {
  transport::QueuePair& qp = Connect(7);
  EXPECT_EQ(InChild([&] {
              const Engine::Verb verb(*engine_);
              const bool posted = PostWrite(verb, qp) == Status::kOk;
              return posted && port_->frames_sent == 0 ? 0 : 1;
            }),
            0);
}

// No other thread polls, and datagrams have no timers.
TEST_F(EnginePortTest, ProgressThreadStaysAwakeWhileFramesWaitForRoom) {
  port_->has_room = false;
  Post(CreateQueuePair(), 7, 1);
  // More looks than an idle progress thread makes before it falls asleep.
  constexpr uint64_t kLooks = 1'000;
  const uint64_t asked = port_->asked_for_room;
  ASSERT_TRUE(WaitUntil([&] { return port_->asked_for_room >= asked + kLooks; }));
  port_->has_room = true;
  EXPECT_TRUE(WaitUntil([&] { return port_->frames_sent == 1; }));
}

// A verb has precedence over the progress thread. Here a verb waits for the lock whenever the
// progress thread has woken, and keeps the lock until the progress thread waits for it, too.
TEST_F(EnginePortTest, ProgressThreadThatFoundTheLockTakenDoesNotSleepBeforeItsPass) {
  const pid_t tests_thread = gettid();
  std::atomic<pid_t> progress_thread{0};
  std::atomic<bool> is_awake{false};
  std::atomic<int> services_before{INT_MAX};
  engine_->WithEndpoint([&](Endpoint&) {
    port_->on_end_of_sleep = [&] {
      if (progress_thread.exchange(gettid()) == 0) services_before = port_->served.load();
      is_awake = true;
      while (!IsAsleep(tests_thread)) sched_yield();
    };
  });
  port_->WakeSleeper();
  const transport::Time give_up = Now() + transport::Milliseconds(10'000);
  while (port_->served <= services_before && Now() < give_up) {
    if (!is_awake.exchange(false)) continue;
    const Engine::Verb verb(*engine_);
    while (!IsAsleep(progress_thread)) sched_yield();
  }
  EXPECT_GT(port_->served, services_before);
  engine_->WithEndpoint([&](Endpoint&) { port_->on_end_of_sleep = {}; });
}

// Over a slow port a verb takes longer than the time after which a program counts as one that has
// stopped. A progress thread that polled for the lock meanwhile would switch many times a
// millisecond.
TEST_F(EnginePortTest, ProgressThreadStandsByWhileAThreadIsLongInTheEngine) {
  const auto verb_is_left_alone = [&] {
    if (!PollUntilFramesMayWait()) return false;
    return engine_->WithEndpoint([](Endpoint&) {
      rusage before, after;
      const transport::Time begin = Now();
      getrusage(RUSAGE_SELF, &before);
      usleep(100'000);
      getrusage(RUSAGE_SELF, &after);
      const int64_t milliseconds = (Now() - begin).ns / transport::Milliseconds(1).ns;
      return after.ru_nvcsw - before.ru_nvcsw <= 2 * milliseconds;
    });
  };
  EXPECT_TRUE(WaitUntil(verb_is_left_alone));
}

TEST_F(EnginePortTest, GroupIsLeftWithItsLastMember) {
  const Gid group = {{0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  transport::QueuePair& first = CreateQueuePair();
  transport::QueuePair& second = CreateQueuePair();
  engine_->WithEndpoint([&](Endpoint& endpoint) {
    EXPECT_EQ(endpoint.AttachMulticast(first, group), Status::kOk);
    EXPECT_EQ(endpoint.AttachMulticast(second, group), Status::kOk);
  });
  const auto leave = [&](transport::QueuePair& qp) {
    engine_->WithEndpoint(
        [&](Endpoint& endpoint) { EXPECT_EQ(endpoint.DetachMulticast(qp, group), Status::kOk); });
    engine_->LeaveGroup(group);
    return engine_->WithEndpoint([&](Endpoint&) { return port_->groups_left; });
  };
  EXPECT_EQ(leave(first), 0);
  EXPECT_EQ(leave(second), 1);
}

TEST_F(EnginePortTest, ForkedChildLetsGoOfThePort) {
  EXPECT_EQ(InChild([&] { return port_->is_abandoned ? 0 : 1; }), 0);
  EXPECT_FALSE(port_->is_abandoned);
}

TEST_F(EnginePortTest, ForkedChildChangesNothingThatTheParentPublishes) {
  transport::QueuePair& qp = CreateQueuePair();
  EXPECT_EQ(InChild([&] {
              return engine_->WithEndpoint([&](Endpoint&) {
                qp.Fail();
                return qp.state() == QpState::kError ? 0 : 1;
              });
            }),
            0);
  EXPECT_EQ(engine_->WithEndpoint([&](Endpoint&) { return qp.state(); }), QpState::kReadyToSend);
}

TEST_F(EnginePortTest, ForkWaitsForTheThreadInsideTheEngine) {
  std::atomic<bool> is_inside{false};
  std::atomic<bool> is_about_to_fork{false};
  std::thread other([&] {
    engine_->WithEndpoint([&](Endpoint&) {
      is_inside = true;
      while (!is_about_to_fork) sched_yield();
      usleep(50'000);  // time for the other thread to call fork()
      is_inside = false;
    });
  });
  while (!is_inside) sched_yield();
  is_about_to_fork = true;
  EXPECT_EQ(InChild([&] { return is_inside ? 1 : 0; }), 0);
  other.join();
}

}  // namespace
}  // namespace uroce::nic
