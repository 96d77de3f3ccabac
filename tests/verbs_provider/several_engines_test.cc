// A device of three engines (UROCE_ENGINES): the placement of connections, and objects that all
// engines share.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "tests/verbs_provider/verbs_objects.h"

namespace uroce::verbs::testing {
namespace {

constexpr uint32_t kEngines = 3;
constexpr size_t kUpper = 32'768;

// Two queue pairs that are connected to each other. Each engine has a block of QPNs.
struct Connection {
  Connection(Host& host, ibv_cq* send_to, ibv_cq* receive_to)
      : send_cq(send_to), receive_cq(receive_to) {
    ibv_qp_init_attr attr = RcAttributes(send_cq, receive_cq);
    a.reset(ibv_create_qp(host.pd.get(), &attr));
    b.reset(ibv_create_qp(host.pd.get(), &attr));
    ConnectLoopback(a.get(), b.get());
  }
  uint32_t engine() const {
    EXPECT_EQ(BlockOf(a.get()), BlockOf(b.get()));
    return BlockOf(a.get());
  }
  static uint32_t BlockOf(const ibv_qp* qp) { return qp->qp_num / 16'384; }

  ibv_cq* send_cq;
  ibv_cq* receive_cq;
  Qp a, b;
};

class SeveralEnginesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (Cq& cq : cqs) cq = host.CreateCq(64);
  }

  Connection Connect(size_t send_cq, size_t receive_cq) {
    return Connection(host, cqs[send_cq].get(), cqs[receive_cq].get());
  }
  void Exchange(const Connection& connection) {
    const uint8_t mark = ++marks_;
    host.buffer[0] = mark;
    ASSERT_EQ(PostReceive(connection.b.get(), host.Sge(kUpper, 64), mark), 0);
    ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 64), mark).Post(connection.a.get()), 0);
    std::set<ibv_wc_opcode> opcodes;
    for (ibv_cq* cq : {connection.send_cq, connection.receive_cq}) {
      const ibv_wc wc = WaitForCompletion(cq);
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      EXPECT_EQ(wc.wr_id, mark);
      opcodes.insert(wc.opcode);
    }
    EXPECT_EQ(opcodes, (std::set<ibv_wc_opcode>{IBV_WC_SEND, IBV_WC_RECV}));
    EXPECT_EQ(host.buffer[kUpper], mark);
  }
  ibv_wc_status Write(const Connection& connection, uint32_t rkey) {
    EXPECT_EQ(SendRequest(IBV_WR_RDMA_WRITE, host.Sge(0, 64))
                  .Remote(host.address(kUpper), rkey)
                  .Post(connection.a.get()),
              0);
    return WaitForCompletion(connection.send_cq).status;
  }

  Host host;
  std::array<Cq, 2 * kEngines> cqs;

 private:
  uint8_t marks_ = 0;
};

TEST_F(SeveralEnginesTest, ConnectionsWithQueuesOfTheirOwnTakeTurns) {
  std::vector<Connection> connections;
  std::vector<uint32_t> engines;
  for (size_t i = 0; i < 2 * kEngines; ++i) {
    connections.push_back(Connect(i, i));
    engines.push_back(connections.back().engine());
  }
  EXPECT_EQ(std::set<uint32_t>(engines.begin(), engines.end()).size(), kEngines);
  for (size_t i = 0; i < kEngines; ++i) EXPECT_EQ(engines[i], engines[i + kEngines]);
  for (size_t i = 0; i < 2 * kEngines; ++i) Exchange(connections[i]);
}

TEST_F(SeveralEnginesTest, ConnectionsThatShareAQueueShareAnEngine) {
  const Connection first = Connect(0, 1);
  const Connection second = Connect(2, 2);
  EXPECT_NE(first.engine(), second.engine());
  EXPECT_EQ(Connect(0, 3).engine(), first.engine());
  EXPECT_EQ(Connect(4, 1).engine(), first.engine());
  EXPECT_EQ(Connect(3, 4).engine(), first.engine());
  EXPECT_EQ(Connect(2, 5).engine(), second.engine());
}

TEST_F(SeveralEnginesTest, DatagramsAndSharedReceiveQueuesAreOnTheFirst) {
  const uint32_t first = Connect(0, 0).engine();
  ibv_qp_init_attr datagrams = Attributes(IBV_QPT_UD, cqs[1].get(), cqs[1].get());
  ibv_srq_init_attr shared = {};
  shared.attr = {.max_wr = 16, .max_sge = 1, .srq_limit = 0};
  const Srq srq(ibv_create_srq(host.pd.get(), &shared));
  ibv_qp_init_attr sharing = Attributes(IBV_QPT_RC, cqs[2].get(), cqs[2].get(), srq.get());
  for (ibv_qp_init_attr* attr : {&datagrams, &sharing}) {
    const Qp qp(ibv_create_qp(host.pd.get(), attr));
    ASSERT_NE(qp, nullptr);
    EXPECT_EQ(Connection::BlockOf(qp.get()), first);
  }
}

// The queue pairs are on two engines, which exchange frames as two processes do.
TEST_F(SeveralEnginesTest, EnginesReachEachOther) {
  ibv_qp_init_attr attr[] = {RcAttributes(cqs[0].get(), cqs[0].get()),
                             RcAttributes(cqs[1].get(), cqs[1].get())};
  const Qp a(ibv_create_qp(host.pd.get(), &attr[0]));
  const Qp b(ibv_create_qp(host.pd.get(), &attr[1]));
  ASSERT_NE(Connection::BlockOf(a.get()), Connection::BlockOf(b.get()));
  ConnectLoopback(a.get(), b.get());
  host.buffer[0] = 7;
  ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 64), 1), 0);
  ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 64)).Post(a.get()), 0);
  EXPECT_EQ(WaitForCompletion(cqs[1].get()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(WaitForCompletion(cqs[0].get()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(host.buffer[kUpper], 7);
}

TEST_F(SeveralEnginesTest, RegionIsGoodOnAllAndGoneOnAll) {
  std::vector<Connection> connections;
  for (size_t i = 0; i < kEngines; ++i) connections.push_back(Connect(i, i));
  Mr mr(ibv_reg_mr(host.pd.get(), host.data(), host.buffer.size(), Host::kAllAccess));
  const uint32_t rkey = mr->rkey;
  for (size_t i = 0; i < kEngines; ++i) {
    EXPECT_EQ(Write(connections[i], rkey), IBV_WC_SUCCESS);
  }
  mr.reset();
  for (size_t i = 0; i < kEngines; ++i) {
    EXPECT_EQ(Write(connections[i], rkey), IBV_WC_REM_ACCESS_ERR);
  }
}

// A window of type 1 is for all queue pairs of its protection domain.
TEST_F(SeveralEnginesTest, WindowThatOneBindsIsOpenOnAll) {
  std::vector<Connection> connections;
  for (size_t i = 0; i < kEngines; ++i) connections.push_back(Connect(i, i));
  const Mw mw(ibv_alloc_mw(host.pd.get(), IBV_MW_TYPE_1));
  ibv_mw_bind bind = {};
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_info = {host.mr.get(), host.address(kUpper), 64, IBV_ACCESS_REMOTE_WRITE};
  ASSERT_EQ(ibv_bind_mw(connections[1].b.get(), mw.get(), &bind), 0);
  ASSERT_EQ(WaitForCompletion(cqs[1].get()).status, IBV_WC_SUCCESS);
  for (size_t i = 0; i < kEngines; ++i) {
    EXPECT_EQ(Write(connections[i], mw->rkey), IBV_WC_SUCCESS);
  }
}

// A third connection completes in queues of two engines and so unites the engines: their events
// must not be late.
TEST_F(SeveralEnginesTest, TiedQueuesWork) {
  const Channel channel(ibv_create_comp_channel(host.context.get()));
  const Cq announced = host.CreateCq(64, channel.get());
  const Connection first = Connect(0, 0);
  const Connection second(host, announced.get(), announced.get());
  ASSERT_NE(first.engine(), second.engine());
  const Connection tied(host, cqs[0].get(), announced.get());

  pollfd fd = {.fd = channel->fd, .events = POLLIN, .revents = 0};
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(announced.get(), 0), 0);
    if (i == 0) usleep(200'000);  // until every progress thread sleeps
    ASSERT_EQ(PostReceive(tied.b.get(), host.Sge(kUpper, 64), 1), 0);
    ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 64)).Post(tied.a.get()), 0);
    ASSERT_EQ(poll(&fd, 1, 10'000), 1);
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel.get(), &cq, &context), 0);
    ibv_ack_cq_events(cq, 1);
    EXPECT_EQ(WaitForCompletion(announced.get()).opcode, IBV_WC_RECV);
    EXPECT_EQ(WaitForCompletion(cqs[0].get()).opcode, IBV_WC_SEND);
    Exchange(first);
    Exchange(second);
  }
  // Once the engines are united, another engine gains nothing, so new connections share one.
  EXPECT_EQ(Connect(1, 1).engine(), Connect(2, 2).engine());
}

// A queue is created, armed and moderated before it has an engine.
TEST_F(SeveralEnginesTest, ArmingAndModerationSurviveTheFirstQueuePair) {
  const Connection on_first = Connect(0, 0);
  const Channel channel(ibv_create_comp_channel(host.context.get()));
  const Cq cq = host.CreateCq(64, channel.get());
  ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
                             .moderate = {.cq_count = 3, .cq_period = 0}};
  ASSERT_EQ(ibv_modify_cq(cq.get(), &attr), 0);
  ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
  const Connection another(host, cqs[1].get(), cq.get());
  ASSERT_NE(another.engine(), on_first.engine());
  pollfd fd = {.fd = channel->fd, .events = POLLIN, .revents = 0};
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(poll(&fd, 1, 0), 0);
    Exchange(another);
  }
  ASSERT_EQ(poll(&fd, 1, 10'000), 1);
  ibv_cq* of = nullptr;
  void* context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel.get(), &of, &context), 0);
  EXPECT_EQ(of, cq.get());
  ibv_ack_cq_events(of, 1);
}

TEST_F(SeveralEnginesTest, ProcessForksBeforeAndAfterEnginesAreUnited) {
  const Connection first = Connect(0, 0);
  const Connection second = Connect(1, 1);
  const auto forks = [&] {
    const pid_t child = fork();
    if (child == 0) _exit(SendRequest(IBV_WR_SEND, host.Sge(0, 8)).Post(second.a.get()));
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), EIO);
    Exchange(first);
    Exchange(second);
  };
  forks();
  const Connection tied = Connect(0, 1);
  forks();
  Exchange(tied);
}

// Each thread uses its own engine while regions come and go. In the end a queue pair unites the
// engines.
TEST_F(SeveralEnginesTest, ThreadsGoOnWhileEnginesAreUnited) {
  std::vector<Connection> connections;
  for (size_t i = 0; i < kEngines; ++i) connections.push_back(Connect(i, i));
  std::atomic<bool> done{false};
  std::array<std::atomic<int>, kEngines> written{};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kEngines; ++i) {
    threads.emplace_back([&, i] {
      while (!done) {
        EXPECT_EQ(Write(connections[i], host.mr->rkey), IBV_WC_SUCCESS);
        ++written[i];
      }
    });
  }
  const auto await_more = [&] {
    for (std::atomic<int>& count : written) {
      for (const int before = count; count < before + 100;) std::this_thread::yield();
    }
  };
  await_more();
  for (int i = 0; i < 100; ++i) {
    const Mr mr(ibv_reg_mr(host.pd.get(), host.data(), 4'096, Host::kAllAccess));
    ASSERT_NE(mr, nullptr);
  }
  ibv_qp_init_attr ties = RcAttributes(cqs[0].get(), cqs[1].get());
  const Qp tie(ibv_create_qp(host.pd.get(), &ties));
  ASSERT_NE(tie, nullptr);
  await_more();
  done = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace uroce::verbs::testing
