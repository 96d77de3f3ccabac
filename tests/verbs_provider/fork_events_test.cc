// fork() while events are delivered to the application: the engine takes the lock of the descriptor
// table under its own, and fork() takes both.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/verbs_provider/loopback.h"

namespace uroce::verbs::testing {
namespace {

constexpr int kThreads = 2;
constexpr int kForks = 100;

// Sends messages from the process to itself, each announced by an event, until `done`.
void SendWithEvents(Host& host, const std::atomic<bool>& done, std::atomic<uint64_t>& events) {
  const AnnouncedPair pair(host);
  while (!done) {
    ASSERT_EQ(ibv_req_notify_cq(pair.receive_cq.get(), 0), 0);
    ASSERT_EQ(PostReceive(pair.b.get(), host.Sge(4096, 64), 1), 0);
    ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 8)).Post(pair.a.get()), 0);
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(pair.channel.get(), &cq, &context), 0);
    ibv_ack_cq_events(cq, 1);
    ASSERT_EQ(WaitForCompletion(pair.receive_cq.get()).status, IBV_WC_SUCCESS);
    ASSERT_EQ(WaitForCompletion(pair.send_cq.get()).status, IBV_WC_SUCCESS);
    ++events;
  }
}

TEST(ForkEventsTest, ForksAndEventsDoNotWaitForEachOther) {
  Host host;
  std::atomic<bool> done{false};
  std::atomic<uint64_t> events{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] { SendWithEvents(host, done, events); });
  }
  for (int i = 0; i < kForks; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    ASSERT_GT(child, 0);
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }
  const uint64_t before = events;
  while (events == before) std::this_thread::yield();
  done = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace uroce::verbs::testing
