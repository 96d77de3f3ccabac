// What an engine asks of its port, and when: routes in turn, a port without room, groups, fork.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/engine/engine.h"
#include "dpdk_nic/engine/published_state.h"
#include "tests/dpdk_nic/engine/thread_state.h"

namespace uroce::nic {
namespace {

using transport::Endpoint;
using transport::Gid;
using transport::QpState;
using transport::Route;
using transport::Status;

// Waits until `condition` holds; false when much too much time has passed.
bool WaitUntil(const std::function<bool()>& condition) {
  const transport::Time give_up = Now() + transport::Milliseconds(60'000);
  while (!condition()) {
    if (Now() >= give_up) return false;
    usleep(1'000);
  }
  return true;
}

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

// Receives nothing and takes frames only while it has room.
class ScriptedPort final : public PacketPort {
 public:
  ReceivedFrame Receive() override { return {}; }
  void ReleaseReceived() override {}
  transport::FrameRoom AcquireTransmit(Route route) override {
    ++asked_for_room;
    acquired_ = route;
    return has_room ? std::span<uint8_t>(frame_) : std::span<uint8_t>();
  }
  void CommitTransmit(size_t frame_bytes) override {
    frame_bytes_ = frame_bytes;
    sent.push_back(acquired_);
    ++frames_sent;
  }
  void BeginReceiveBurst() override { receive_bursts += IsTestsThread(); }
  void Flush() override {
    flushes += IsTestsThread();
    frames_flushed = frames_sent.load();
  }
  void FlushSoon() override { flushes_soon += IsTestsThread(); }
  int wait_fd() const override { return wait_fd_.get(); }
  void EndSleep() override {
    eventfd_t ignored;
    eventfd_read(wait_fd_.get(), &ignored);
    if (on_end_of_sleep) on_end_of_sleep();
  }
  void ServeLink() override { ++link_services; }
  void AbandonAfterFork() override { is_abandoned = true; }
  void LeaveGroup(const Gid&) override { ++groups_left; }
  transport::MacAddress mac() const override { return {2, 0, 0, 0, 0, 1}; }
  uint32_t mtu() const override { return 1'500; }
  bool link_up() const override { return true; }

  void WakeSleeper() { eventfd_write(wait_fd_.get(), 1); }

  std::span<const uint8_t> last_frame() const { return std::span(frame_).first(frame_bytes_); }

  std::atomic<bool> has_room{true};
  std::atomic<uint64_t> asked_for_room{0};
  std::atomic<size_t> frames_sent{0};
  std::atomic<size_t> frames_flushed{0};
  std::atomic<uint64_t> link_services{0};
  // Under the engine's lock.
  std::function<void()> on_end_of_sleep;
  std::vector<Route> sent;
  int groups_left = 0;
  bool is_abandoned = false;
  // By the test's thread: not by the helper of the engine.
  int receive_bursts = 0;
  int flushes = 0;
  int flushes_soon = 0;

 private:
  bool IsTestsThread() const { return std::this_thread::get_id() == tests_thread_; }

  const std::thread::id tests_thread_ = std::this_thread::get_id();
  const UniqueFd wait_fd_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::array<uint8_t, transport::kMaxFrameBytes> frame_{};
  size_t frame_bytes_ = 0;
  Route acquired_{};
};

// An engine on a ScriptedPort, with links to the processes that have the other blocks of QPNs.
class EnginePortTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kQueueDepth = 256;

  void SetUp() override {
    auto port = std::make_unique<ScriptedPort>();
    port_ = port.get();
    transport::EndpointConfig config;
    config.mac = port->mac();
    config.gids = {Gid::LinkLocal(config.mac)};
    config.has_links = true;
    config.has_wire = false;
    config.port_mtu = port->mtu();
    Engine::Options options;
    options.published_state = PublishedState::Create();
    engine_ = std::make_unique<Engine>(std::move(port), config, std::move(options));
    engine_->WithEndpoint([&](Endpoint& endpoint) {
      cq_ = endpoint.CreateCompletionQueue(2 * kQueueDepth, nullptr);
    });
  }

  void TearDown() override {
    engine_->WithEndpoint([&](Endpoint& endpoint) {
      for (transport::QueuePair* qp : queue_pairs_) endpoint.DestroyQueuePair(qp);
      endpoint.DestroyCompletionQueue(std::move(cq_));
    });
  }

  // One for datagrams, ready to send.
  transport::QueuePair& CreateQueuePair() {
    using M = transport::QpAttributeMask;
    const transport::QpInitAttributes init = {
        .pd = {1},
        .type = transport::QpType::kUnreliableDatagram,
        .send_cq = cq_.get(),
        .receive_cq = cq_.get(),
        .capabilities = {.max_send_wr = kQueueDepth, .max_send_sge = 1}};
    transport::QpAttributes a;
    a.port_num = 1;
    transport::QueuePair* qp = nullptr;
    engine_->WithEndpoint([&](Endpoint& endpoint) {
      EXPECT_EQ(endpoint.CreateQueuePair(init, &qp), Status::kOk);
      a.state = QpState::kInit;
      EXPECT_EQ(qp->Modify(a, M::kState | M::kPkeyIndex | M::kPort | M::kQkey), Status::kOk);
      a.state = QpState::kReadyToReceive;
      EXPECT_EQ(qp->Modify(a, M::kState), Status::kOk);
      a.state = QpState::kReadyToSend;
      EXPECT_EQ(qp->Modify(a, M::kState | M::kSqPsn), Status::kOk);
    });
    queue_pairs_.push_back(qp);
    return *qp;
  }

  // One that is connected to a queue pair of the process that has `block`, which never answers.
  transport::QueuePair& Connect(uint32_t block) {
    using M = transport::QpAttributeMask;
    const transport::QpInitAttributes init = {
        .pd = {1},
        .send_cq = cq_.get(),
        .receive_cq = cq_.get(),
        .capabilities = {.max_send_wr = kQueueDepth, .max_send_sge = 1, .max_inline_bytes = 64}};
    transport::QpAttributes a;
    a.port_num = 1;
    a.destination_qpn = {block * transport::kMaxQps + 1};
    a.address = {.destination_gid = Gid::LinkLocal({2, 0, 0, 0, 0, 2}),
                 .destination_mac = {2, 0, 0, 0, 0, 2}};
    transport::QueuePair* qp = nullptr;
    engine_->WithEndpoint([&](Endpoint& endpoint) {
      EXPECT_EQ(endpoint.CreateQueuePair(init, &qp), Status::kOk);
      a.state = QpState::kInit;
      EXPECT_EQ(qp->Modify(a, M::kState | M::kPkeyIndex | M::kPort | M::kAccessFlags), Status::kOk);
      a.state = QpState::kReadyToReceive;
      EXPECT_EQ(qp->Modify(a, M::kState | M::kAddressVector | M::kPathMtu | M::kDestinationQpn |
                                  M::kRqPsn | M::kMaxDestReadAtomic | M::kMinRnrTimer),
                Status::kOk);
      a.state = QpState::kReadyToSend;  // and waits for ever for an answer
      EXPECT_EQ(qp->Modify(a, M::kState | M::kSqPsn | M::kTimeout | M::kRetryCount | M::kRnrRetry |
                                  M::kMaxReadAtomic),
                Status::kOk);
    });
    queue_pairs_.push_back(qp);
    return *qp;
  }

  Status PostWrite(const Engine::Verb& verb, transport::QueuePair& qp, bool fence = false) {
    static constexpr std::array<uint8_t, 8> kBytes{};
    const transport::ScatterGatherEntry sge = {
        reinterpret_cast<uint64_t>(kBytes.data()), kBytes.size(), {}};
    transport::SendWorkRequest request;
    request.opcode = transport::SendOpcode::kRdmaWrite;
    request.inline_data = true;
    request.fence = fence;
    request.sges = {&sge, 1};
    return engine_->PostSend(verb, qp, request);
  }

  // So many datagrams to the process that has `block`.
  void Post(transport::QueuePair& qp, uint32_t block, int count) {
    const transport::AddressVector address = {.destination_gid = Gid::LinkLocal({2, 0, 0, 0, 0, 2}),
                                              .destination_mac = {2, 0, 0, 0, 0, 2}};
    transport::SendWorkRequest request;
    request.remote_qpn = {block * transport::kMaxQps + 1};
    request.inline_data = true;
    request.address = &address;
    engine_->WithEndpoint([&](Endpoint&) {
      for (int i = 0; i < count; ++i) ASSERT_EQ(qp.PostSend(request), Status::kOk);
    });
  }

  // As a program that polls, until the helper stands by: then frames may wait for others.
  bool PollUntilFramesMayWait() {
    return WaitUntil([&] {
      port_->WakeSleeper();  // one that sleeps does not see who drives
      const int before = port_->flushes_soon;
      for (int i = 0; i < 100'000 && port_->flushes_soon == before; ++i) engine_->TryRunOnce();
      return port_->flushes_soon != before;
    });
  }
  // Posts requests of which the first is never answered, until one waits for others. One that is
  // alone must not.
  bool PostUntilOneWaits() {
    return WaitUntil([&] {
      if (!PollUntilFramesMayWait()) return false;
      transport::QueuePair& qp = Connect(7);
      const size_t before = port_->frames_sent;
      for (int posted = 0; posted < 8; ++posted) {
        const Engine::Verb verb(*engine_);
        EXPECT_TRUE(posted != 1 || port_->frames_flushed == before + 1) << "the first was alone";
        EXPECT_EQ(PostWrite(verb, qp), Status::kOk);
      }
      return port_->frames_flushed != port_->frames_sent;
    });
  }

  std::unique_ptr<Engine> engine_;
  ScriptedPort* port_ = nullptr;
  std::unique_ptr<transport::CompletionQueue> cq_;
  std::vector<transport::QueuePair*> queue_pairs_;
};

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

TEST_F(EnginePortTest, VerbFlushesOnlyWhatItHasSent) {
  transport::QueuePair& qp = CreateQueuePair();
  const int before = port_->flushes;
  engine_->WithEndpoint([](Endpoint&) {});
  EXPECT_EQ(port_->flushes, before) << "nothing was sent";
  Post(qp, 7, 1);
  EXPECT_EQ(port_->flushes, before + 1);
  EXPECT_EQ(port_->receive_bursts, 0) << "only polling looks for what arrives";
  EXPECT_TRUE(WaitUntil([&] {  // the helper may be driving
    engine_->TryRunOnce();
    return port_->receive_bursts == 1;
  }));
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

TEST_F(EnginePortTest, RequestsBehindUnansweredOnesWaitForOthersUntilAPass) {
  ASSERT_TRUE(PostUntilOneWaits());
  EXPECT_TRUE(WaitUntil([&] {
    engine_->TryRunOnce();
    return port_->frames_flushed == port_->frames_sent;
  }));
}

TEST_F(EnginePortTest, RequestsThatWaitLeaveWhenTheProgramPollsNoMore) {
  ASSERT_TRUE(PostUntilOneWaits());
  EXPECT_TRUE(WaitUntil([&] { return port_->frames_flushed == port_->frames_sent; }));
}

// A program that armed a queue may fall asleep at any time: the helper has to be there.
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

// Also if the port keeps the frame, as it does until there is a link. UCX uses its buffers again
// before it polls.
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
  const transport::AddressVector peer = {.destination_gid = Gid::LinkLocal({2, 0, 0, 0, 0, 2}),
                                         .destination_mac = {2, 0, 0, 0, 0, 2}};
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

// No one else polls, and datagrams have no timers.
TEST_F(EnginePortTest, HelperStaysAwakeWhileFramesWaitForRoom) {
  port_->has_room = false;
  Post(CreateQueuePair(), 7, 1);
  // More often than the helper looks before it would fall asleep.
  constexpr uint64_t kLooks = 1'000;
  const uint64_t asked = port_->asked_for_room;
  ASSERT_TRUE(WaitUntil([&] { return port_->asked_for_room >= asked + kLooks; }));
  port_->has_room = true;
  EXPECT_TRUE(WaitUntil([&] { return port_->frames_sent == 1; }));
}

// Verbs come before a thread that only offers to drive. Here one waits for the lock whenever the
// helper has woken, and keeps it until the helper waits too.
TEST_F(EnginePortTest, HelperThatFoundTheLockTakenDoesNotSleepBeforeItsPass) {
  const pid_t tests_thread = gettid();
  std::atomic<pid_t> helper{0};
  std::atomic<bool> is_awake{false};
  std::atomic<uint64_t> services_before{UINT64_MAX};
  engine_->WithEndpoint([&](Endpoint&) {
    port_->on_end_of_sleep = [&] {
      if (helper.exchange(gettid()) == 0) services_before = port_->link_services.load();
      is_awake = true;
      while (!IsAsleep(tests_thread)) sched_yield();
    };
  });
  port_->WakeSleeper();
  const transport::Time give_up = Now() + transport::Milliseconds(10'000);
  while (port_->link_services <= services_before && Now() < give_up) {
    if (!is_awake.exchange(false)) continue;
    const Engine::Verb verb(*engine_);
    while (!IsAsleep(helper)) sched_yield();
  }
  EXPECT_GT(port_->link_services, services_before);
  engine_->WithEndpoint([&](Endpoint&) { port_->on_end_of_sleep = {}; });
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

TEST_F(EnginePortTest, ForkWaitsUntilNobodyIsInTheMiddleOfAnything) {
  std::atomic<bool> is_inside{false};
  std::atomic<bool> is_about_to_fork{false};
  std::thread other([&] {
    engine_->WithEndpoint([&](Endpoint&) {
      is_inside = true;
      while (!is_about_to_fork) sched_yield();
      usleep(50'000);  // fork() is called now, if not sooner
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
