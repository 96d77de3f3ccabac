// Two processes write to each other and announce it by an ATOMIC WRITE of a number, behind a FLUSH
// if the installed libibverbs has it: a process that sees the number must see the data written
// before.
//
//   placement ROUNDS
//
// Prints whether the library has FLUSH, then "N rounds". On an error it prints a sentence on
// stderr; exit status 1.
#include <infiniband/verbs.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/system/verbs/device.h"
#include "tests/system/verbs/handles.h"
#include "tests/system/verbs/rc_queue_pair.h"

namespace system_test {
namespace {

// rdma-core's headers have these from release 45 on.
constexpr unsigned int kAccessFlushGlobal = 1u << 8;
constexpr unsigned int kAccessFlushPersistent = 1u << 9;
constexpr uint64_t kWithFlush = 1u << 11;
constexpr uint64_t kWithAtomicWrite = 1u << 12;
constexpr unsigned int kCompletedFlush = 8;
constexpr unsigned int kCompletedAtomicWrite = 9;
constexpr auto kAtomicWriteRequest = static_cast<ibv_wr_opcode>(15);
constexpr uint64_t kDeviceFlushGlobal = 1ull << 38;
constexpr uint64_t kDeviceFlushPersistent = 1ull << 39;
constexpr uint64_t kDeviceAtomicWrite = 1ull << 40;
constexpr uint8_t kGlobal = 1;
constexpr uint8_t kRange = 0;
constexpr uint8_t kRegion = 1;
using AtomicWrite = void (*)(ibv_qp_ex*, uint32_t, uint64_t, const void*);
using Flush = void (*)(ibv_qp_ex*, uint32_t, uint64_t, size_t, uint8_t, uint8_t);

// The members that ibv_qp_ex has behind wr_abort.
template <class Function>
Function MemberOf(const ibv_qp_ex* qp, int index) {
  Function function;
  std::memcpy(&function,
              reinterpret_cast<const char*>(qp) + offsetof(ibv_qp_ex, wr_abort) +
                  static_cast<size_t>(1 + index) * sizeof function,
              sizeof function);
  return function;
}

void Require(bool is_true, const std::string& sentence) {
  if (!is_true) throw std::runtime_error(sentence);
}

// The peer writes the first half of the buffer. The second half is the source of what this end
// writes there. In both, a number follows the data.
constexpr size_t kDataBytes = 5'000;
constexpr size_t kNumberAt = 5'008;
constexpr size_t kHalf = 8'192;
constexpr uint32_t kFirstPsn = 0xff'ff00;

struct Address {
  QueuePairAddress queue_pair;
  uint64_t buffer;
  uint32_t rkey;
};

class End {
 public:
  End() : device_(0), buffer_(2 * kHalf / sizeof(uint64_t)) {
    domain_.reset(ibv_alloc_pd(device_.context()));
    queue_.reset(ibv_create_cq(device_.context(), 16, nullptr, nullptr, 0));
    Require(domain_ != nullptr && queue_ != nullptr, "no protection domain or completion queue");
    CheckDevice();
    region_.reset(ibv_reg_mr(domain_.get(), bytes(), 2 * kHalf, kAccess));
    if (region_ == nullptr) Fail("ibv_reg_mr", errno);
    CreateQueuePair();
  }

  bool flushes() const { return flushes_; }
  Address address() const {
    return {connection_->address(), reinterpret_cast<uint64_t>(bytes()), region_->rkey};
  }

  void Connect(const Address& peer) {
    peer_ = peer;
    constexpr uint8_t kTimeout = 14;  // 67 ms
    connection_->Connect(peer.queue_pair, {IBV_MTU_1024, kTimeout, /*retry_count=*/7});
  }

  // Writes the data of the round, and its number behind them.
  void Announce(uint64_t round) {
    std::memset(bytes() + kHalf, static_cast<int>(round & 0xff), kDataBytes);
    ibv_qp_ex* const qp = ibv_qp_to_qp_ex(connection_->get());
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    qp->wr_id = IBV_WC_RDMA_WRITE;
    ibv_wr_rdma_write(qp, peer_.rkey, peer_.buffer);
    ibv_wr_set_sge(qp, region_->lkey, reinterpret_cast<uint64_t>(bytes() + kHalf), kDataBytes);
    if (flushes_) {
      qp->wr_id = kCompletedFlush;
      const uint8_t level = round % 2 == 0 ? kRange : kRegion;
      MemberOf<Flush>(qp, 1)(qp, peer_.rkey, peer_.buffer, kDataBytes, kGlobal, level);
    }
    qp->wr_id = kCompletedAtomicWrite;
    uint64_t number = round;
    MemberOf<AtomicWrite>(qp, 0)(qp, peer_.rkey, peer_.buffer + kNumberAt, &number);
    number = 0;  // the call has copied it
    const int error = ibv_wr_complete(qp);
    if (error != 0) Fail("ibv_wr_complete", error);
    for (int i = 0; i < (flushes_ ? 3 : 2); ++i) {
      const ibv_wc completion = Wait();
      Require(completion.status == IBV_WC_SUCCESS,
              std::string("a request failed: ") + ibv_wc_status_str(completion.status));
      Require(completion.wr_id == completion.opcode, "a request completes as another");
    }
  }

  // Writes a number alone, by ibv_post_send.
  ibv_wc_status Answer(uint64_t round, size_t slip = 0) {
    words()[kHalf / sizeof(uint64_t)] = round;
    ibv_sge sge = {reinterpret_cast<uint64_t>(bytes() + kHalf), sizeof round, region_->lkey};
    ibv_send_wr request = {};
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = kAtomicWriteRequest;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma.remote_addr = peer_.buffer + kNumberAt + slip;
    request.wr.rdma.rkey = peer_.rkey;
    ibv_send_wr* bad = nullptr;
    const int error = ibv_post_send(connection_->get(), &request, &bad);
    if (error != 0) Fail("ibv_post_send", error);
    return Wait().status;
  }

  // Waits until the peer has announced the round.
  void Await(uint64_t round, bool has_data) {
    std::atomic_ref<uint64_t> number(words()[kNumberAt / sizeof(uint64_t)]);
    while (number.load(std::memory_order_acquire) != round) {
      ibv_wc completion;
      Require(ibv_poll_cq(queue_.get(), 1, &completion) == 0, "an unexpected completion");
      Require(number.load() <= round, "a number that was not written");
    }
    for (size_t i = 0; has_data && i < kDataBytes; ++i) {
      Require(bytes()[i] == (round & 0xff), "the number came before the data");
    }
  }

 private:
  static constexpr unsigned int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                          IBV_ACCESS_REMOTE_READ | kAccessFlushGlobal;

  uint64_t* words() const { return const_cast<uint64_t*>(buffer_.data()); }
  uint8_t* bytes() const { return reinterpret_cast<uint8_t*>(words()); }

  void CheckDevice() {
    ibv_device_attr_ex attributes = {};
    const int error = ibv_query_device_ex(device_.context(), nullptr, &attributes);
    if (error != 0) Fail("ibv_query_device_ex", error);
    const uint64_t flags = attributes.device_cap_flags_ex;
    Require((flags & kDeviceFlushGlobal) != 0 && (flags & kDeviceAtomicWrite) != 0,
            "the device offers no FLUSH or no ATOMIC WRITE");
    Require((flags & kDeviceFlushPersistent) == 0, "the device calls plain memory persistent");
    const RegionHandle persistent(
        ibv_reg_mr(domain_.get(), bytes(), kHalf, kAccess | kAccessFlushPersistent));
    Require(persistent == nullptr && errno == EINVAL, "plain memory is registered as persistent");
  }

  void CreateQueuePair() {
    ibv_qp_init_attr_ex attributes = {};
    attributes.send_cq = attributes.recv_cq = queue_.get();
    attributes.cap = {.max_send_wr = 8,
                      .max_recv_wr = 1,
                      .max_send_sge = 1,
                      .max_recv_sge = 1,
                      .max_inline_data = 8};
    attributes.qp_type = IBV_QPT_RC;
    attributes.pd = domain_.get();
    attributes.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attributes.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | kWithAtomicWrite | kWithFlush;
    QueuePairHandle made(ibv_create_qp_ex(device_.context(), &attributes));
    flushes_ = made != nullptr;
    if (!flushes_) {
      Require(errno == EOPNOTSUPP, "another error than that the library has no FLUSH");
      attributes.send_ops_flags &= ~kWithFlush;
      made.reset(ibv_create_qp_ex(device_.context(), &attributes));
      if (made == nullptr) Fail("ibv_create_qp_ex", errno);
    }
    connection_.emplace(device_, std::move(made), kAccess, kFirstPsn);
  }

  ibv_wc Wait() {
    ibv_wc completion = {};
    int count = 0;
    while (count == 0) count = ibv_poll_cq(queue_.get(), 1, &completion);
    Require(count == 1, "ibv_poll_cq failed");
    return completion;
  }

  Device device_;
  std::vector<uint64_t> buffer_;
  DomainHandle domain_;
  QueueHandle queue_;
  RegionHandle region_;
  std::optional<RcQueuePair> connection_;
  bool flushes_ = false;
  Address peer_{};
};

// `socket` leads to the other process.
void Run(bool is_first, int socket, uint64_t rounds) {
  End end;
  const Address own = end.address();
  Address peer;
  Require(write(socket, &own, sizeof own) == sizeof own, "the other process is gone");
  Require(read(socket, &peer, sizeof peer) == sizeof peer, "the other process is gone");
  end.Connect(peer);
  // Both wait until both queue pairs are ready.
  char ready = 1;
  Require(write(socket, &ready, 1) == 1 && read(socket, &ready, 1) == 1,
          "the other process is gone");
  if (is_first) std::printf("FLUSH: %s\n", end.flushes() ? "yes" : "no");
  for (uint64_t round = 1; round <= rounds; ++round) {
    if (is_first) {
      end.Announce(round);
      end.Await(round, /*has_data=*/false);
    } else {
      end.Await(round, /*has_data=*/true);
      Require(end.Answer(round) == IBV_WC_SUCCESS, "the answer failed");
    }
  }
  // At last a misaligned number, across two words. The first process gets an error; the second does
  // nothing.
  if (is_first) {
    Require(end.Answer(1, /*slip=*/4) == IBV_WC_REM_INV_REQ_ERR, "a misaligned number is written");
    std::printf("%llu rounds\n", static_cast<unsigned long long>(rounds));
  }
  Require(write(socket, &ready, 1) == 1 && read(socket, &ready, 1) == 1,
          "the other process is gone");
}

int Main(int argc, char** argv) {
  const uint64_t rounds = argc == 2 ? std::strtoull(argv[1], nullptr, 10) : 0;
  int sockets[2];
  if (rounds == 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) {
    std::fprintf(stderr, "usage: placement ROUNDS\n");
    return 2;
  }
  const pid_t child = fork();
  const bool is_first = child != 0;
  close(sockets[is_first ? 1 : 0]);
  int result = 0;
  try {
    Run(is_first, sockets[is_first ? 0 : 1], rounds);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "placement: %s\n", error.what());
    result = 1;
  }
  close(sockets[is_first ? 0 : 1]);
  int status = 0;
  if (is_first && (waitpid(child, &status, 0) != child || status != 0)) result = 1;
  return result;
}

}  // namespace
}  // namespace system_test

int main(int argc, char** argv) { return system_test::Main(argc, argv); }
