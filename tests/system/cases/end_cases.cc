// Connections whose peer is stopped or ends, in each of the ways in which a process can end.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <vector>

#include "tests/system/cases/child.h"
#include "tests/system/cases/cm_objects.h"
#include "tests/verbs_provider/verbs_objects.h"

namespace uroce::verbs::testing {
namespace {

constexpr size_t kBytes = 4'096;

// A connection with a server of another process.
class EndCases : public ::testing::Test {
 protected:
  // The server's end.
  struct Accepted {
    const Line& line;
    EventChannel& channel;
    rdma_cm_id* id;
    std::vector<uint8_t> memory = std::vector<uint8_t>(kBytes);

    // A receive request, and its completion.
    void Receive() {
      const Mr mr(ibv_reg_mr(id->pd, memory.data(), kBytes, IBV_ACCESS_LOCAL_WRITE));
      ibv_sge piece = {reinterpret_cast<uint64_t>(memory.data()), kBytes, mr->lkey};
      ibv_recv_wr request = {.wr_id = 1, .next = nullptr, .sg_list = &piece, .num_sge = 1};
      ibv_recv_wr* bad = nullptr;
      ASSERT_EQ(ibv_post_recv(id->qp, &request, &bad), 0);
      line.Meet();
      ibv_wc wc;
      while (ibv_poll_cq(id->recv_cq, 1, &wc) == 0) {
      }
      ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    }
  };

  void Connect(const std::function<void(Accepted&)>& serve) {
    server_.emplace([&](const Line& line) {
      EventChannel channel;
      const CmId listener = channel.Listen();
      line.Tell(SourcePort(listener.get()));
      const CmId id(channel.Expect(RDMA_CM_EVENT_CONNECT_REQUEST).id);
      CreateQueuePair(id.get());
      rdma_conn_param parameters = Parameters();
      ASSERT_EQ(rdma_accept(id.get(), &parameters), 0);
      channel.Expect(RDMA_CM_EVENT_ESTABLISHED);
      Accepted accepted = {line, channel, id.get()};
      line.Meet();
      serve(accepted);
    });
    channel_.Resolve(id_.get(), server_->line().Hear<uint16_t>());
    CreateQueuePair(id_.get());
    rdma_conn_param parameters = Parameters();
    ASSERT_EQ(rdma_connect(id_.get(), &parameters), 0);
    channel_.Expect(RDMA_CM_EVENT_ESTABLISHED);
    server_->line().Meet();
  }
  // The peer gives up after more than a minute, with -ETIMEDOUT.
  void ExpectDisconnected() { EXPECT_EQ(channel_.Expect(RDMA_CM_EVENT_DISCONNECTED).status, 0); }
  // The server receives a message, and ends at once.
  void ExpectLastMessageAcknowledged(const std::function<void()>& end) {
    Connect([&](Accepted& accepted) {
      accepted.Receive();
      end();
    });
    std::vector<uint8_t> memory(kBytes);
    const Mr mr(ibv_reg_mr(id_->pd, memory.data(), kBytes, IBV_ACCESS_LOCAL_WRITE));
    const ibv_sge piece = {reinterpret_cast<uint64_t>(memory.data()), kBytes, mr->lkey};
    server_->line().Meet();
    ASSERT_EQ(SendRequest(IBV_WR_SEND, piece, 1).Post(id_->qp), 0);
    EXPECT_EQ(WaitForCompletion(id_->send_cq).status, IBV_WC_SUCCESS);
  }

  EventChannel channel_;
  CmId id_ = channel_.CreateId();
  std::optional<Child> server_;
};

TEST_F(EndCases, PeerThatDiesIsADisconnection) {
  Connect([](Accepted&) { pause(); });
  server_->Signal(SIGKILL);
  ExpectDisconnected();
}

// qperf -cm 1: the server ends when it hears of the disconnection, and the client waited 77 s.
TEST_F(EndCases, PeerThatDiesBeforeItAnswersADisconnectionHasAnswered) {
  Connect([](Accepted& accepted) {
    accepted.channel.Expect(RDMA_CM_EVENT_DISCONNECTED);
    raise(SIGKILL);
  });
  ASSERT_EQ(rdma_disconnect(id_.get()), 0);
  ExpectDisconnected();
}

// gdb, Ctrl-Z, docker pause.
TEST_F(EndCases, StoppedPeerIsDisconnectedAndHearsOfItWhenItGoesOn) {
  Connect([](Accepted& accepted) {
    accepted.channel.Expect(RDMA_CM_EVENT_DISCONNECTED);
    EXPECT_EQ(rdma_disconnect(accepted.id), 0);
    accepted.channel.Expect(RDMA_CM_EVENT_TIMEWAIT_EXIT);
  });
  server_->Signal(SIGSTOP);
  ASSERT_EQ(rdma_disconnect(id_.get()), 0);
  ExpectDisconnected();
  channel_.Expect(RDMA_CM_EVENT_TIMEWAIT_EXIT);
  server_->Signal(SIGCONT);
  EXPECT_EQ(server_->ExitStatus(), 0);
  EXPECT_TRUE(channel_.IsQuiet());
}

// A NIC has acknowledged what a process has received. Python's multiprocessing ends with _exit.
TEST_F(EndCases, LastMessageBeforeUnderscoreExitIsAcknowledged) {
  ExpectLastMessageAcknowledged([] { _exit(0); });
}

TEST_F(EndCases, LastMessageBeforeQuickExitIsAcknowledged) {
  ExpectLastMessageAcknowledged([] { std::quick_exit(0); });
}

TEST_F(EndCases, LastMessageBeforeAnotherProgramIsAcknowledged) {
  ExpectLastMessageAcknowledged([] {
    static char name[] = "true";
    char* const arguments[] = {name, nullptr};
    execv("/bin/true", arguments);
  });
}

}  // namespace
}  // namespace uroce::verbs::testing
