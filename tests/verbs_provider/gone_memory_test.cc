// A peer accesses memory that the target has registered and then unmapped, protected or truncated.
// The target, another process, survives, its other queue pairs go on, and both ends get the errors
// that hardware with on-demand paging reports.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "tests/verbs_provider/verbs_objects.h"

namespace uroce::verbs::testing {
namespace {

constexpr size_t kBytes = 8192;
constexpr uint8_t kIntact = 0x5a;

// How a process loses its memory.
enum class Loss : uint8_t { kUnmapped, kMovedAway, kProtected, kReadOnly, kTruncated };

const char* NameOf(Loss loss) {
  constexpr std::array kNames = {"Unmapped", "MovedAway", "Protected", "ReadOnly", "Truncated"};
  return kNames[static_cast<size_t>(loss)];
}

// Two pages of a file, of which the second can be lost. They are far from the addresses that the
// kernel chooses for mappings, so that no new mapping takes the place of a lost page.
class Victim {
 public:
  Victim() : fd_(memfd_create("victim", MFD_CLOEXEC)) {
    EXPECT_EQ(ftruncate(fd_, kBytes), 0);
    auto* const remote_place = reinterpret_cast<void*>(uintptr_t{0x3000'0000'0000});
    data_ = static_cast<uint8_t*>(
        mmap(remote_place, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0));
    std::memset(data_, kIntact, kBytes);
  }
  ~Victim() {
    munmap(data_, kBytes);
    munmap(elsewhere_, kBytes / 2);
    close(fd_);
  }
  Victim(const Victim&) = delete;
  Victim& operator=(const Victim&) = delete;

  uint8_t* data() const { return data_; }
  uint8_t* lost() const { return data_ + kBytes / 2; }
  bool Lose(Loss how) {
    constexpr size_t kHalf = kBytes / 2;
    switch (how) {
      case Loss::kUnmapped:
        return munmap(lost(), kHalf) == 0;
      case Loss::kMovedAway:
        return mremap(lost(), kHalf, kHalf, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere_) ==
               elsewhere_;
      case Loss::kProtected:
        return mprotect(lost(), kHalf, PROT_NONE) == 0;
      case Loss::kReadOnly:
        return mprotect(lost(), kHalf, PROT_READ) == 0;
      case Loss::kTruncated:
        return ftruncate(fd_, kHalf) == 0;
    }
    return false;
  }

 private:
  const int fd_;
  uint8_t* data_;
  void* const elsewhere_ = mmap(nullptr, kBytes / 2, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
};

// The data that the two processes exchange to connect.
struct Introduction {
  ibv_gid gid;
  std::array<uint32_t, 2> qpns;
  uint64_t address;
  uint32_t rkey;
};

// One of the two processes. It has two queue pairs, of which only the first accesses the lost page.
class End {
 public:
  End(int in, int out) : in_(in), out_(out) {
    cq_ = host_.CreateCq(64);
    victim_mr_.reset(ibv_reg_mr(host_.pd.get(), victim_.data(), kBytes, Host::kAllAccess));
    for (Qp& qp : qps_) {
      ibv_qp_init_attr attr = RcAttributes(cq_.get(), cq_.get());
      qp.reset(ibv_create_qp(host_.pd.get(), &attr));
    }
  }

  bool Connect() {
    Introduction ours = {};
    if (ibv_query_gid(host_.context.get(), 1, 1, &ours.gid) != 0) return false;
    ours.qpns = {qps_[0]->qp_num, qps_[1]->qp_num};
    ours.address = reinterpret_cast<uintptr_t>(victim_.data());
    ours.rkey = victim_mr_->rkey;
    if (!Tell(ours) || !Hear(peer_)) return false;
    for (size_t i = 0; i < qps_.size(); ++i) {
      ibv_qp* const qp = qps_[i].get();
      if (ToInit(qp) != 0 || ToRtr(qp, peer_.qpns[i], peer_.gid) != 0 || ToRts(qp) != 0) {
        return false;
      }
    }
    return Step();
  }
  // Waits until both processes have called it.
  bool Step() {
    char ready = 1;
    return Tell(ready) && Hear(ready);
  }

  // A piece in this process's lost page.
  ibv_sge Lost(uint32_t length) const {
    return {.addr = reinterpret_cast<uintptr_t>(victim_.lost()),
            .length = length,
            .lkey = victim_mr_->lkey};
  }
  // Runs `request` on the peer's memory from `offset` on.
  ibv_wc Run(size_t qp, SendRequest& request, size_t offset) {
    EXPECT_EQ(request.Remote(peer_.address + offset, peer_.rkey).Post(qps_[qp].get()), 0);
    return WaitForCompletion(cq_.get());
  }
  // Whether the second queue pair still carries data.
  bool OtherWorks() {
    SendRequest write(IBV_WR_RDMA_WRITE, host_.Sge(0, 100), 2);
    return Run(1, write, 0).status == IBV_WC_SUCCESS;
  }
  bool OtherSends() {
    SendRequest send(IBV_WR_SEND, host_.Sge(0, 100), 3);
    return send.Post(qps_[1].get()) == 0 && WaitForCompletion(cq_.get()).status == IBV_WC_SUCCESS;
  }

  Host host_;
  Victim victim_;
  Cq cq_;
  Mr victim_mr_;
  std::array<Qp, 2> qps_;
  Introduction peer_ = {};

 private:
  template <class T>
  bool Tell(const T& what) {
    return write(out_, &what, sizeof what) == sizeof what;
  }
  template <class T>
  bool Hear(T& what) {
    return read(in_, &what, sizeof what) == sizeof what;
  }

  const int in_;
  const int out_;
};

// An operation of the requester, and the completions expected at both ends.
struct Access {
  const char* name;
  ibv_wr_opcode opcode;
  ibv_wc_status expected;                  // of the requester
  ibv_wc_status receive = IBV_WC_SUCCESS;  // of the target, for SENDs
  bool local = false;                      // the requester's own memory is lost
};

constexpr Access kAccesses[] = {
    {"Write", IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR},
    {"Read", IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR},
    {"FetchAndAdd", IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_REM_ACCESS_ERR},
    {"CompareAndSwap", IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_REM_ACCESS_ERR},
    {"Receive", IBV_WR_SEND, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR},
    {"SendFrom", IBV_WR_SEND, IBV_WC_LOC_PROT_ERR, IBV_WC_SUCCESS, true},
    {"WriteFrom", IBV_WR_RDMA_WRITE, IBV_WC_LOC_PROT_ERR, IBV_WC_SUCCESS, true},
    {"ReadInto", IBV_WR_RDMA_READ, IBV_WC_LOC_PROT_ERR, IBV_WC_SUCCESS, true},
};

bool OnlyReads(const Access& access) {
  return access.local ? access.opcode != IBV_WR_RDMA_READ : access.opcode == IBV_WR_RDMA_READ;
}

// The application thread of the target is idle while the peer works on its memory, so the progress
// thread thread accesses the lost page. Returns 0, or the number of the step that failed.
int RunTarget(const Access& access, Loss loss, int in, int out) {
  End end(in, out);
  if (!end.Connect()) return 1;
  if (access.opcode == IBV_WR_SEND &&
      PostReceive(end.qps_[0].get(), access.local ? end.host_.Sge(0, 64) : end.Lost(64), 1) != 0) {
    return 2;
  }
  if (PostReceive(end.qps_[1].get(), end.host_.Sge(0, 100), 2) != 0) return 3;
  if (!access.local && !end.victim_.Lose(loss)) return 4;
  if (!end.Step()) return 5;  // the requester works now
  if (!end.Step()) return 6;
  if (access.receive != IBV_WC_SUCCESS &&
      WaitForCompletion(end.cq_.get()).status != access.receive) {
    return 7;
  }
  if (WaitForCompletion(end.cq_.get()).wr_id != 2) return 13;
  if (!access.local) {
    if (Query(end.qps_[0].get()).qp_state != IBV_QPS_ERR) return 8;
    if (access.opcode != IBV_WR_SEND) {
      ExpectAsyncEvent(end.host_.context.get(), IBV_EVENT_QP_ACCESS_ERR, end.qps_[0].get());
    }
  }
  // The target reaches the requester, too.
  if (!end.OtherWorks()) return 9;
  if (end.victim_.data()[kBytes / 2 - 1] != kIntact) return 10;
  if (!end.Step()) return 11;
  return ::testing::Test::HasFailure() ? 12 : 0;
}

void RunRequester(const Access& access, Loss loss, int in, int out) {
  End end(in, out);
  ASSERT_TRUE(end.Connect());
  ASSERT_TRUE(end.Step());
  if (access.local) {
    ASSERT_TRUE(end.victim_.Lose(loss));
  }
  const bool is_atomic =
      access.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || access.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
  const uint32_t length = is_atomic ? 8 : 64;
  SendRequest request(access.opcode, access.local ? end.Lost(length) : end.host_.Sge(0, length));
  // A comparison that fails does not write.
  if (is_atomic) std::memset(&request.wr.atomic.compare_add, kIntact, sizeof(uint64_t));
  EXPECT_EQ(end.Run(0, request, kBytes / 2).status, access.expected);
  EXPECT_TRUE(end.OtherWorks());
  EXPECT_TRUE(end.OtherSends());
  ASSERT_TRUE(end.Step());
  ASSERT_TRUE(end.Step());
}

using Case = std::tuple<Access, Loss>;
class GoneMemoryTest : public ::testing::TestWithParam<Case> {};

TEST_P(GoneMemoryTest, EndsTheAccessAndNothingElse) {
  const auto& [access, loss] = GetParam();
  // The kernel reads for us what is protected, and writes what is protected unless it is shared.
  const bool is_mapped = loss == Loss::kReadOnly || loss == Loss::kProtected;
  if (is_mapped && OnlyReads(access)) GTEST_SKIP() << "may be read";
  int to_target[2];
  int to_requester[2];
  ASSERT_EQ(pipe(to_target), 0);
  ASSERT_EQ(pipe(to_requester), 0);
  const pid_t target = fork();
  if (target == 0) {
    close(to_target[1]);
    close(to_requester[0]);
    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    _exit(RunTarget(access, loss, to_target[0], to_requester[1]));
  }
  close(to_target[0]);
  close(to_requester[1]);
  RunRequester(access, loss, to_requester[0], to_target[1]);
  close(to_target[1]);
  close(to_requester[0]);
  int status = 0;
  ASSERT_EQ(waitpid(target, &status, 0), target);
  EXPECT_TRUE(WIFEXITED(status)) << "killed by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

INSTANTIATE_TEST_SUITE_P(All, GoneMemoryTest,
                         ::testing::Combine(::testing::ValuesIn(kAccesses),
                                            ::testing::Values(Loss::kUnmapped, Loss::kMovedAway,
                                                              Loss::kProtected, Loss::kReadOnly,
                                                              Loss::kTruncated)),
                         [](const auto& tested) {
                           return std::string(std::get<0>(tested.param).name) +
                                  NameOf(std::get<1>(tested.param));
                         });

// The thread blocks every signal, as threads of servers do, before and after it first uses the
// device.
TEST(GoneMemoryInOneProcessTest, ThreadThatBlocksEverySignal) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  End end(-1, -1);
  ConnectLoopback(end.qps_[0].get(), end.qps_[1].get());
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  ASSERT_TRUE(end.victim_.Lose(Loss::kUnmapped));
  end.peer_.address = reinterpret_cast<uintptr_t>(end.victim_.data());
  end.peer_.rkey = end.victim_mr_->rkey;
  SendRequest request(IBV_WR_RDMA_WRITE, end.host_.Sge(0, 64));
  EXPECT_EQ(end.Run(0, request, kBytes / 2).status, IBV_WC_REM_ACCESS_ERR);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// A key stands for addresses, as with on-demand paging: it reaches memory that has been mapped
// there since, and pages that madvise gave back.
TEST(GoneMemoryInOneProcessTest, MemoryThatWasMappedAnewIsReached) {
  End end(-1, -1);
  ConnectLoopback(end.qps_[0].get(), end.qps_[1].get());
  end.peer_.address = reinterpret_cast<uintptr_t>(end.victim_.data());
  end.peer_.rkey = end.victim_mr_->rkey;
  std::memset(end.host_.data(), 0x77, 64);
  SendRequest write(IBV_WR_RDMA_WRITE, end.host_.Sge(0, 64));

  ASSERT_EQ(madvise(end.victim_.lost(), kBytes / 2, MADV_DONTNEED), 0);
  EXPECT_EQ(end.Run(0, write, kBytes / 2).status, IBV_WC_SUCCESS);
  EXPECT_EQ(end.victim_.lost()[63], 0x77);
  EXPECT_EQ(end.victim_.lost()[64], kIntact);

  ASSERT_TRUE(end.victim_.Lose(Loss::kUnmapped));
  ASSERT_EQ(mmap(end.victim_.lost(), kBytes / 2, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
            end.victim_.lost());
  EXPECT_EQ(end.Run(0, write, kBytes / 2).status, IBV_WC_SUCCESS);
  EXPECT_EQ(end.victim_.lost()[63], 0x77);
  EXPECT_EQ(end.victim_.lost()[64], 0);
}

TEST(GoneMemoryInOneProcessTest, InlineDataThatCannotBeReadIsRefused) {
  End end(-1, -1);
  ConnectLoopback(end.qps_[0].get(), end.qps_[1].get());
  ASSERT_TRUE(end.victim_.Lose(Loss::kUnmapped));
  SendRequest request(IBV_WR_SEND, end.Lost(16));
  request.send_flags |= IBV_SEND_INLINE;
  EXPECT_EQ(request.Post(end.qps_[0].get()), EFAULT);
}

}  // namespace
}  // namespace uroce::verbs::testing
