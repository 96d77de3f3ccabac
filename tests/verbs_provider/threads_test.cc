// Verbs from many threads at once. Most telling under the thread sanitizer.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "tests/verbs_provider/loopback.h"

namespace uroce::verbs::testing {
namespace {

constexpr int kThreads = 4;
constexpr int kMessages = 2'000;
constexpr int kRoom = 64;  // in each completion queue

// Two connected queue pairs with queues of their own.
struct Connection {
  explicit Connection(Host& host)
      : send_cq(host.CreateCq(kRoom)), receive_cq(host.CreateCq(kRoom)) {
    ibv_qp_init_attr attr = RcAttributes(send_cq.get(), receive_cq.get());
    a.reset(ibv_create_qp(host.pd.get(), &attr));
    b.reset(ibv_create_qp(host.pd.get(), &attr));
    ConnectLoopback(a.get(), b.get());
  }
  Cq send_cq, receive_cq;
  Qp a, b;
};

TEST(ThreadsTest, ConnectionsWorkSideBySide) {
  Host host;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&host, t] {
      Connection connection(host);
      const size_t offset = static_cast<size_t>(t) * 256;
      for (uint64_t id = 0; id < kMessages; ++id) {
        ASSERT_EQ(PostReceive(connection.b.get(), host.Sge(32'768 + offset, 64), id), 0);
        ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(offset, 64), id).Post(connection.a.get()), 0);
        ASSERT_EQ(WaitForCompletion(connection.send_cq.get()).status, IBV_WC_SUCCESS);
        ASSERT_EQ(WaitForCompletion(connection.receive_cq.get()).wr_id, id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ThreadsTest, OneQueuePairTakesPostsAndPollsFromAll) {
  Host host;
  Connection connection(host);
  std::atomic<int> posted{0};
  std::atomic<int> completed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      const auto drain = [&] {
        std::array<ibv_wc, 4> wcs;
        const int count = ibv_poll_cq(connection.send_cq.get(), 4, wcs.data());
        for (int i = 0; i < count; ++i) ASSERT_EQ(wcs[static_cast<size_t>(i)].status, 0);
        completed += count;
      };
      for (int mine; (mine = posted.fetch_add(1)) < kMessages;) {
        // Leaves room in the queue for completions not polled yet and for requests that the other
        // threads post meanwhile.
        while (mine - completed >= kRoom - kThreads) drain();
        int error = ENOMEM;
        while (error == ENOMEM) {
          error = SendRequest(IBV_WR_RDMA_WRITE, host.Sge(0, 64))
                      .Remote(host.address(32'768), host.mr->rkey)
                      .Post(connection.a.get());
          if (error == ENOMEM) drain();
        }
        ASSERT_EQ(error, 0);
      }
      while (completed < kMessages) drain();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(completed, kMessages);
}

TEST(ThreadsTest, ObjectsComeAndGoUnderTraffic) {
  Host host;
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads - 1; ++t) {
    threads.emplace_back([&] {
      while (!done) {
        const Host another(4096);
        const Mw window(ibv_alloc_mw(another.pd.get(), IBV_MW_TYPE_1));
        const Cq cq(ibv_create_cq(another.context.get(), 8, nullptr, nullptr, 0));
        ibv_qp_init_attr attr = RcAttributes(cq.get(), cq.get());
        const Qp qp(ibv_create_qp(another.pd.get(), &attr));
        ASSERT_NE(qp, nullptr);
        ASSERT_EQ(ToInit(qp.get()), 0);
        ibv_qp_attr queried;
        ibv_qp_init_attr init;
        ASSERT_EQ(ibv_query_qp(qp.get(), &queried, IBV_QP_STATE, &init), 0);
        ASSERT_EQ(queried.qp_state, IBV_QPS_INIT);
      }
    });
  }
  Connection connection(host);
  for (uint64_t id = 0; id < kMessages; ++id) {
    ASSERT_EQ(SendRequest(IBV_WR_RDMA_READ, host.Sge(0, 4096), id)
                  .Remote(host.address(32'768), host.mr->rkey)
                  .Post(connection.a.get()),
              0);
    ASSERT_EQ(WaitForCompletion(connection.send_cq.get()).wr_id, id);
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(ThreadsTest, EventsWakeASleeper) {
  Host host;
  const AnnouncedPair pair(host);
  ASSERT_EQ(ibv_req_notify_cq(pair.receive_cq.get(), 0), 0);

  constexpr int kWakeUps = 200;
  std::atomic<int> received{0};
  std::thread sleeper([&] {
    while (received < kWakeUps) {
      ibv_cq* cq = nullptr;
      void* context = nullptr;
      ASSERT_EQ(ibv_get_cq_event(pair.channel.get(), &cq, &context), 0);
      ibv_ack_cq_events(cq, 1);
      ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
      ibv_wc wc;
      while (ibv_poll_cq(cq, 1, &wc) == 1) ++received;
    }
  });
  for (int i = 0; i < kWakeUps; ++i) {
    ASSERT_EQ(PostReceive(pair.b.get(), host.Sge(4096, 64), 1), 0);
    ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 8)).Post(pair.a.get()), 0);
    ASSERT_EQ(WaitForCompletion(pair.send_cq.get()).status, IBV_WC_SUCCESS);
    while (received <= i) std::this_thread::yield();
  }
  sleeper.join();
}

}  // namespace
}  // namespace uroce::verbs::testing
