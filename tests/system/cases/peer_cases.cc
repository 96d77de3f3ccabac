// Two processes, of which one is busy, reads much or dies.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/system/cases/child.h"
#include "tests/system/cases/cm_objects.h"
#include "tests/verbs_provider/verbs_objects.h"

namespace uroce::verbs::testing {
namespace {

// Memory that a server shows to its clients in the private data of its answer.
struct Shown {
  uint64_t address;
  uint32_t rkey;
};

// Word `index` of a server's memory.
uint64_t Word(size_t index) { return (index + 1) * 0x9e37'79b9'7f4a'7c15; }

// A server with `bytes` bytes of memory. It tells its port, then accepts `connections`.
class Server {
 public:
  Server(const Line& line, size_t bytes, int connections) : memory_(bytes / sizeof(uint64_t)) {
    for (size_t i = 0; i < memory_.size(); ++i) memory_[i] = Word(i);
    const CmId listener = channel_.Listen();
    line.Tell(SourcePort(listener.get()));
    for (int i = 0; i < connections; ++i) Accept();
  }
  ~Server() {
    regions_.clear();
    ids_.clear();
  }

 private:
  void Accept() {
    ids_.push_back(CmId(channel_.Expect(RDMA_CM_EVENT_CONNECT_REQUEST).id));
    rdma_cm_id* const id = ids_.back().get();
    CreateQueuePair(id);
    regions_.emplace_back(ibv_reg_mr(id->pd, memory_.data(), memory_.size() * sizeof(uint64_t),
                                     Host::kAllAccess & ~IBV_ACCESS_MW_BIND));
    ASSERT_NE(regions_.back(), nullptr);
    const Shown shown = {reinterpret_cast<uint64_t>(memory_.data()), regions_.back()->rkey};
    rdma_conn_param parameters = Parameters();
    parameters.private_data = &shown;
    parameters.private_data_len = sizeof shown;
    ASSERT_EQ(rdma_accept(id, &parameters), 0);
    channel_.Expect(RDMA_CM_EVENT_ESTABLISHED);
  }

  std::vector<uint64_t> memory_;
  EventChannel channel_;
  std::vector<CmId> ids_;
  std::vector<Mr> regions_;
};

// A connection to a server, with memory of the client.
class Client {
 public:
  Client(uint16_t port, size_t bytes) : memory_(bytes / sizeof(uint64_t)) {
    channel_.Resolve(id_.get(), port);
    CreateQueuePair(id_.get());
    rdma_conn_param parameters = Parameters();
    EXPECT_EQ(rdma_connect(id_.get(), &parameters), 0);
    const CmEvent event = channel_.Expect(RDMA_CM_EVENT_ESTABLISHED);
    if (event.private_data.size() >= sizeof shown_) {
      std::memcpy(&shown_, event.private_data.data(), sizeof shown_);
    }
    mr_.reset(ibv_reg_mr(id_->pd, memory_.data(), bytes, IBV_ACCESS_LOCAL_WRITE));
  }

  void Post(ibv_wr_opcode opcode, uint64_t id, uint32_t bytes) {
    const ibv_sge piece = {reinterpret_cast<uint64_t>(memory_.data()), bytes, mr_->lkey};
    SendRequest request(opcode, piece, id);
    ASSERT_EQ(request.Remote(shown_.address, shown_.rkey).Post(id_->qp), 0);
  }
  ibv_cq* cq() const { return id_->send_cq; }
  const std::vector<uint64_t>& memory() const { return memory_; }

 private:
  std::vector<uint64_t> memory_;
  EventChannel channel_;
  CmId id_ = channel_.CreateId();
  Mr mr_;
  Shown shown_{};
};

[[noreturn]] void Compute() {
  for (std::atomic<uint64_t> i = 0;; i.fetch_add(1, std::memory_order_relaxed)) {
  }
}

// A NIC serves WRITE and READ whatever the program that owns the memory does.
class BusyPeer : public ::testing::Test {
 protected:
  // Does `work` in a server, which makes no call of verbs meanwhile.
  void ExpectServed(const std::function<void()>& work) {
    Child server([&](const Line& line) {
      const Server own(line, kBytes, 1);
      line.Meet();
      work();
    });
    Client client(server.line().Hear<uint16_t>(), kBytes);
    server.line().Meet();
    for (uint64_t id = 0; id < 20; ++id) {
      client.Post(id % 2 == 0 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, id, kBytes);
      const ibv_wc wc = WaitForCompletion(client.cq());
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      EXPECT_EQ(wc.wr_id, id);
    }
    EXPECT_EQ(client.memory()[17], Word(17));
  }

  static constexpr uint32_t kBytes = 65'536;
};

TEST_F(BusyPeer, ThatComputesServesItsMemory) {
  ExpectServed([] { Compute(); });
}

TEST_F(BusyPeer, ThatSleepsServesItsMemory) {
  ExpectServed([] { pause(); });
}

// A real-time thread that blocks every signal and leaves its processor to no other thread there.
TEST_F(BusyPeer, ThatHoldsAProcessorServesItsMemory) {
  ExpectServed([] {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    sched_setaffinity(0, sizeof first, &first);
    Compute();
  });
}

// librdmacm #10: READs of many megabytes from two servers at once. Each queue pair completes in
// order with the right bytes, and small READs of a third one are not held up until the end.
TEST(BigReads, LeaveRoomForSmallOnes) {
  constexpr uint32_t kBytes = 32 << 20;
  constexpr uint64_t kReads = 4;
  const auto serve = [](int connections) {
    return [connections](const Line& line) {
      const Server own(line, kBytes, connections);
      pause();
    };
  };
  Child one(serve(2));
  Child other(serve(1));
  const uint16_t port = one.line().Hear<uint16_t>();
  std::array<std::unique_ptr<Client>, 2> big = {
      std::make_unique<Client>(port, kBytes),
      std::make_unique<Client>(other.line().Hear<uint16_t>(), kBytes)};
  Client small(port, 4096);
  for (const auto& client : big) {
    for (uint64_t id = 0; id < kReads; ++id) client->Post(IBV_WR_RDMA_READ, id, kBytes);
  }
  std::array<uint64_t, 2> done = {};
  uint64_t small_done = 0;
  small.Post(IBV_WR_RDMA_READ, small_done, 8);
  while (done[0] + done[1] < 2 * kReads) {
    ibv_wc wc;
    for (size_t i = 0; i < big.size(); ++i) {
      if (ibv_poll_cq(big[i]->cq(), 1, &wc) != 1) continue;
      ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
      ASSERT_EQ(wc.wr_id, done[i]++);
    }
    if (ibv_poll_cq(small.cq(), 1, &wc) != 1) continue;
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    ASSERT_EQ(wc.wr_id, small_done++);
    small.Post(IBV_WR_RDMA_READ, small_done, 8);
  }
  EXPECT_GT(small_done, kReads);
  for (const auto& client : big) {
    for (size_t i = 0; i < client->memory().size(); ++i) ASSERT_EQ(client->memory()[i], Word(i));
  }
}

// librdmacm #1, volumedriver #245: a thread writes to an rsocket until the connection ends.
class RsocketCases : public ::testing::Test {
 protected:
  // Connects to a server that reads until it has `bytes`, and then does nothing more.
  void Connect(size_t bytes) {
    server = std::make_unique<Child>([&](const Line& line) {
      const int listener = rsocket(AF_INET, SOCK_STREAM, 0);
      sockaddr_in any = Ipv4("127.0.0.1", 0);
      ASSERT_EQ(rbind(listener, Generic(&any), sizeof any), 0);
      ASSERT_EQ(rlisten(listener, 4), 0);
      socklen_t size = sizeof any;
      ASSERT_EQ(rgetsockname(listener, Generic(&any), &size), 0);
      line.Tell(ntohs(any.sin_port));
      const int connection = raccept(listener, nullptr, nullptr);
      std::vector<char> buffer(65'536);
      size_t received = 0;
      while (received < bytes) {
        const ssize_t count = rrecv(connection, buffer.data(), buffer.size(), 0);
        if (count <= 0) return;
        received += static_cast<size_t>(count);
      }
      line.Tell('.');
      pause();
    });
    sockaddr_in address = Ipv4("127.0.0.1", server->line().Hear<uint16_t>());
    fd = rsocket(AF_INET, SOCK_STREAM, 0);
    ASSERT_EQ(rconnect(fd, Generic(&address), sizeof address), 0) << std::strerror(errno);
    writer = std::thread([this] {
      const std::vector<char> buffer(65'536);
      while (rsend(fd, buffer.data(), buffer.size(), 0) > 0) {
      }
    });
  }
  void ExpectWriterEnds() {
    writer.join();
    EXPECT_EQ(rclose(fd), 0);
  }

  std::unique_ptr<Child> server;
  int fd = -1;
  std::thread writer;
};

TEST_F(RsocketCases, PeerThatIsKilledEndsTheWriter) {
  Connect(1 << 30);
  server->Signal(SIGKILL);
  ExpectWriterEnds();
}

TEST_F(RsocketCases, ShutdownByAnotherThreadEndsTheWriter) {
  Connect(1 << 20);
  server->line().Hear<char>();
  EXPECT_EQ(rshutdown(fd, SHUT_RDWR), 0);
  ExpectWriterEnds();
}

}  // namespace
}  // namespace uroce::verbs::testing
