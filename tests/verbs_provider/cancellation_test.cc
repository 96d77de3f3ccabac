// A thread is cancelled (pthread_cancel) while it uses verbs: no verb is a cancellation point but
// the waits for events, as on hardware. Two processes, so that verbs send and receive.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "tests/dpdk_nic/base/cancelled_thread.h"
#include "tests/verbs_provider/verbs_objects.h"

namespace uroce::verbs::testing {
namespace {

constexpr int kMessages = 300;
constexpr unsigned int kMuchTooLongSeconds = 240;
constexpr size_t kUpper = 32'768;

// Where the queue pair and the buffer of an end are.
struct Address {
  ibv_gid gid;
  uint32_t qpn;
  uint32_t rkey;
  uint64_t buffer;
};

// One end of the connection.
struct End {
  explicit End(int socket_of_peer)
      : socket(socket_of_peer), channel(ibv_create_comp_channel(host.context.get())) {
    gid_index = ibv_query_gid(host.context.get(), 1, 1, &gid) == 0 ? 1 : 0;
    EXPECT_EQ(ibv_query_gid(host.context.get(), 1, gid_index, &gid), 0);
  }

  void Create() {
    cq = host.CreateCq(64, channel.get());
    ibv_qp_init_attr attr = RcAttributes(cq.get(), cq.get());
    qp.reset(ibv_create_qp(host.pd.get(), &attr));
    ASSERT_NE(qp, nullptr);
    ASSERT_EQ(ToInit(qp.get(), {.gid_index = gid_index}), 0);
  }
  void ExchangeAddresses() {
    const Address own{gid, qp->qp_num, host.mr->rkey, host.address()};
    ASSERT_EQ(write(socket, &own, sizeof own), static_cast<ssize_t>(sizeof own));
    ASSERT_EQ(read(socket, &peer, sizeof peer), static_cast<ssize_t>(sizeof peer));
  }
  void Connect() {
    ASSERT_EQ(ToRtr(qp.get(), peer.qpn, peer.gid, {.gid_index = gid_index}), 0);
    ASSERT_EQ(ToRts(qp.get(), {.gid_index = gid_index}), 0);
  }
  // Waits without a cancellation point.
  void Expect(ibv_wc_opcode opcode) {
    const ibv_wc wc = WaitForCompletion(cq.get());
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    ASSERT_EQ(wc.opcode, opcode);
  }

  const int socket;
  Host host;
  uint8_t gid_index = 0;
  ibv_gid gid{};
  Channel channel;
  Cq cq;
  Qp qp;
  Address peer{};
};

// The peer sends back what it receives, until its socket ends.
void RunPeer(int socket) {
  End end(socket);
  end.Create();
  for (uint64_t id = 0; id < 4; ++id) {
    ASSERT_EQ(PostReceive(end.qp.get(), end.host.Sge(kUpper, 64), id), 0);
  }
  end.ExchangeAddresses();
  end.Connect();
  char byte = 0;
  ASSERT_EQ(write(socket, &byte, 1), 1);
  while (recv(socket, &byte, 1, MSG_DONTWAIT) != 0) {
    ibv_wc wc;
    if (ibv_poll_cq(end.cq.get(), 1, &wc) != 1 || wc.status != IBV_WC_SUCCESS) continue;
    if (wc.opcode != IBV_WC_RECV) continue;
    ASSERT_EQ(PostReceive(end.qp.get(), end.host.Sge(kUpper, 64), wc.wr_id), 0);
    ASSERT_EQ(SendRequest(IBV_WR_SEND, end.host.Sge(0, 64)).Post(end.qp.get()), 0);
  }
}

class CancellationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (IsOverUdp() && getenv("UROCE_TEST_NAMESPACE") == nullptr) {
      GTEST_SKIP() << "no network namespace";
    }
    std::array<int, 2> sockets;
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()), 0);
    // Before the device is opened: the child has one of its own.
    child_ = fork();
    if (child_ == 0) {
      close(sockets[0]);
      alarm(kMuchTooLongSeconds);
      ChoosePortOfPeer();
      RunPeer(sockets[1]);
      _exit(HasFailure() ? 1 : 0);
    }
    close(sockets[1]);
    socket_ = sockets[0];
    end_ = std::make_unique<End>(socket_);
  }
  void TearDown() override {
    end_.reset();
    if (socket_ < 0) return;
    close(socket_);
    int status = -1;
    EXPECT_EQ(waitpid(child_, &status, 0), child_);
    EXPECT_EQ(status, 0);
  }
  // The port of direct mode; empty on a fabric.
  static std::string Port() {
    const char* port = getenv("UROCE_PORT");
    return port == nullptr ? "" : port;
  }
  static bool IsOverUdp() { return Port().starts_with("udp"); }
  static void ChoosePortOfPeer() {
    std::string port = Port();
    if (IsOverUdp()) setenv("UROCE_PORT", "udp,address=127.0.0.2", 1);
    const size_t role = port.find("role=server");
    if (role == std::string::npos) return;
    setenv("UROCE_PORT", port.replace(role, strlen("role=server"), "role=client").c_str(), 1);
    setenv("UROCE_IP", "127.0.0.2", 1);
  }

  void Exchange() {
    ASSERT_EQ(ibv_req_notify_cq(end_->cq.get(), 0), 0);
    ASSERT_EQ(PostReceive(end_->qp.get(), end_->host.Sge(kUpper, 64), 1), 0);
    SendRequest send(IBV_WR_SEND, end_->host.Sge(0, 64));
    send.send_flags = 0;
    ASSERT_EQ(send.Post(end_->qp.get()), 0);
    end_->Expect(IBV_WC_RECV);
  }
  void Reach(ibv_wr_opcode operation, ibv_wc_opcode completion) {
    ASSERT_EQ(SendRequest(operation, end_->host.Sge(0, 16'384))
                  .Remote(end_->peer.buffer, end_->peer.rkey)
                  .Post(end_->qp.get()),
              0);
    end_->Expect(completion);
  }

  std::unique_ptr<End> end_;

 private:
  pid_t child_ = -1;
  int socket_ = -1;
};

TEST_F(CancellationTest, NoVerbIsACancellationPoint) {
  EXPECT_TRUE(OutlivesCancellation([&] { end_->Create(); }));
  end_->ExchangeAddresses();
  char ready = 0;
  ASSERT_EQ(read(end_->socket, &ready, 1), 1);
  EXPECT_TRUE(OutlivesCancellation([&] {
    end_->Connect();
    for (int i = 0; i < kMessages && !HasFailure(); ++i) Exchange();
    for (int i = 0; i < kMessages / 10 && !HasFailure(); ++i) {
      Reach(IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE);
      Reach(IBV_WR_RDMA_READ, IBV_WC_RDMA_READ);
    }
    // Longer than a poll yields: these polls sleep, too, and serve the link.
    ibv_wc wc;
    for (int i = 0; i < 20'000; ++i) EXPECT_EQ(ibv_poll_cq(end_->cq.get(), 1, &wc), 0);
    EXPECT_EQ(Modify(end_->qp.get(), IBV_QPS_ERR), 0);
  }));
  ibv_cq* told = nullptr;
  void* context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(end_->channel.get(), &told, &context), 0);
  ibv_ack_cq_events(told, 1);
  EXPECT_TRUE(OutlivesCancellation([&] {
    end_->qp.reset();
    end_->cq.reset();
    end_->host.mr.reset();
  }));
}

TEST(CancelledWaitTest, WaitForACompletionEventIsACancellationPoint) {
  Host host;
  const Channel channel(ibv_create_comp_channel(host.context.get()));
  const Cq cq = host.CreateCq(16, channel.get());
  EXPECT_FALSE(OutlivesCancellation([&] {
    ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
    ibv_cq* told = nullptr;
    void* context = nullptr;
    ibv_get_cq_event(channel.get(), &told, &context);
  }));
}

}  // namespace
}  // namespace uroce::verbs::testing
