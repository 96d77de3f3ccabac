// Waiting for events: nested epoll sets, signals, and threads that are cancelled.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <functional>
#include <thread>

#include "tests/verbs_provider/loopback.h"

namespace uroce::verbs::testing {
namespace {

constexpr int kMinuteMs = 60'000;

class EventCases : public LoopbackTest {
 protected:
  void Arm() { ASSERT_EQ(ibv_req_notify_cq(pair.receive_cq.get(), 0), 0); }
  // Makes one completion at the receiver, whose queue has the channel.
  void Complete() {
    ASSERT_EQ(PostReceive(pair.b.get(), host.Sge(kUpper, 64), 1), 0);
    ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 8)).Post(pair.a.get()), 0);
    EXPECT_EQ(WaitForCompletion(pair.send_cq.get()).status, IBV_WC_SUCCESS);
  }
  void TakeEvent() {
    ibv_cq* queue = nullptr;
    void* context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(pair.channel.get(), &queue, &context), 0);
    EXPECT_EQ(queue, pair.receive_cq.get());
    ibv_ack_cq_events(queue, 1);
  }
  void Drain() {
    ibv_wc wc;
    while (ibv_poll_cq(pair.receive_cq.get(), 1, &wc) > 0) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  }

  AnnouncedPair pair{host};
};

// libvalkey #301, async-rdma #10: event loops put the completion channel, the rdma_cm channel and
// an eventfd into an epoll set that is itself in another one.
class NestedEpoll : public EventCases {
 protected:
  void Watch(uint32_t flags) {
    for (const int fd : {pair.channel->fd, cm_channel->fd, kick}) {
      epoll_event event = {.events = EPOLLIN | flags, .data = {.fd = fd}};
      ASSERT_EQ(epoll_ctl(inner, EPOLL_CTL_ADD, fd, &event), 0);
    }
    epoll_event event = {.events = EPOLLIN, .data = {.fd = inner}};
    ASSERT_EQ(epoll_ctl(outer, EPOLL_CTL_ADD, inner, &event), 0);
  }
  void TearDown() override {
    for (const int fd : {kick, inner, outer}) close(fd);
    rdma_destroy_event_channel(cm_channel);
  }
  bool OuterIsReady(int timeout_ms) {
    epoll_event event;
    return epoll_wait(outer, &event, 1, timeout_ms) == 1;
  }
  // The descriptor that the inner set names, or -1.
  int Named(int timeout_ms = 0) {
    epoll_event event;
    return epoll_wait(inner, &event, 1, timeout_ms) == 1 ? event.data.fd : -1;
  }

  rdma_event_channel* const cm_channel = rdma_create_event_channel();
  const int kick = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  const int inner = epoll_create1(EPOLL_CLOEXEC);
  const int outer = epoll_create1(EPOLL_CLOEXEC);
};

TEST_F(NestedEpoll, LevelStaysReadableUntilTheEventIsTaken) {
  Watch(0);
  EXPECT_FALSE(OuterIsReady(0));
  for (int round = 0; round < 3; ++round) {
    Arm();
    Complete();
    EXPECT_TRUE(OuterIsReady(kMinuteMs));
    EXPECT_EQ(Named(), pair.channel->fd);
    EXPECT_EQ(Named(), pair.channel->fd);
    TakeEvent();
    EXPECT_FALSE(OuterIsReady(0));
    Drain();
  }
  EXPECT_EQ(eventfd_write(kick, 1), 0);
  EXPECT_TRUE(OuterIsReady(kMinuteMs));
  EXPECT_EQ(Named(), kick);
}

TEST_F(NestedEpoll, EachEventIsOneEdge) {
  Watch(EPOLLET);
  for (int round = 0; round < 3; ++round) {
    Arm();
    Complete();
    EXPECT_TRUE(OuterIsReady(kMinuteMs));
    EXPECT_EQ(Named(), pair.channel->fd);
    EXPECT_EQ(Named(), -1) << "the same edge again";
    // A second event is a second edge, though the first one was not taken.
    Drain();
    Arm();
    Complete();
    EXPECT_EQ(Named(kMinuteMs), pair.channel->fd);
    TakeEvent();
    TakeEvent();
    Drain();
    Named();
  }
}

std::atomic<int> signals{0};

void Count(int) {
  signals.fetch_add(1);
  errno = 77;
}

void Handle(int number, int flags) {
  struct sigaction action = {};
  action.sa_handler = Count;
  action.sa_flags = flags;
  ASSERT_EQ(sigaction(number, &action, nullptr), 0);
  signals.store(0);
}

// Signals `target` until told to stop: a signal that comes before the thread waits is no harm.
class Signaller {
 public:
  explicit Signaller(pthread_t target)
      : thread_([this, target] {
          while (!stop_.load()) {
            pthread_kill(target, SIGUSR1);
            usleep(1000);
          }
        }) {}
  ~Signaller() {
    stop_.store(true);
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// ib (Go) PR #3: without SA_RESTART a signal ends each of the blocking calls with EINTR.
TEST_F(EventCases, SignalInterruptsEveryBlockingCall) {
  Handle(SIGUSR1, 0);
  rdma_event_channel* const cm_channel = rdma_create_event_channel();
  const Signaller signaller(pthread_self());
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  errno = 0;
  EXPECT_EQ(ibv_get_cq_event(pair.channel.get(), &queue, &context), -1);
  EXPECT_EQ(errno, EINTR);
  rdma_cm_event* cm_event = nullptr;
  errno = 0;
  EXPECT_EQ(rdma_get_cm_event(cm_channel, &cm_event), -1);
  EXPECT_EQ(errno, EINTR);
  ibv_async_event async_event;
  errno = 0;
  EXPECT_EQ(ibv_get_async_event(host.context.get(), &async_event), -1);
  EXPECT_EQ(errno, EINTR);
  rdma_destroy_event_channel(cm_channel);
}

TEST_F(EventCases, WithSaRestartTheCallGoesOnWaiting) {
  Handle(SIGUSR1, SA_RESTART);
  Arm();
  const Signaller signaller(pthread_self());
  std::thread sender([this] {
    while (signals.load() < 3) usleep(1000);
    Complete();
  });
  TakeEvent();
  EXPECT_GE(signals.load(), 3);
  sender.join();
  Drain();
}

TEST_F(EventCases, TimerSignalsDisturbNoTraffic) {
  Handle(SIGALRM, SA_RESTART);
  const itimerval every_ms = {.it_interval = {0, 1000}, .it_value = {0, 1000}};
  ASSERT_EQ(setitimer(ITIMER_REAL, &every_ms, nullptr), 0);
  for (uint64_t id = 0; id < 100'000 || signals.load() < 3; ++id) {
    SendRequest write(IBV_WR_RDMA_WRITE, host.Sge(0, 64), id);
    ASSERT_EQ(write.Remote(host.address(kUpper), host.mr->rkey).Post(pair.a.get()), 0);
    const ibv_wc wc = WaitForCompletion(pair.send_cq.get());
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    ASSERT_EQ(wc.wr_id, id);
  }
  const itimerval never = {};
  ASSERT_EQ(setitimer(ITIMER_REAL, &never, nullptr), 0);
}

// SIGSEGV is blocked too, with which missing memory is found.
TEST_F(EventCases, ThreadThatBlocksEverySignalGetsItsEvents) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &all, &before), 0);
  Arm();
  Complete();
  pollfd waiting = {.fd = pair.channel->fd, .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&waiting, 1, kMinuteMs), 1);
  TakeEvent();
  Drain();
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &before, nullptr), 0);
}

void* WaitForEvent(void* channel) {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  ibv_get_cq_event(static_cast<ibv_comp_channel*>(channel), &queue, &context);
  return nullptr;
}

TEST_F(EventCases, ThreadThatWaitsForAnEventCanBeCancelled) {
  pthread_t waiter;
  ASSERT_EQ(pthread_create(&waiter, nullptr, WaitForEvent, pair.channel.get()), 0);
  ASSERT_EQ(pthread_cancel(waiter), 0);
  void* result = nullptr;
  ASSERT_EQ(pthread_join(waiter, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  Arm();
  Complete();
  TakeEvent();
  Drain();
}

}  // namespace
}  // namespace uroce::verbs::testing
