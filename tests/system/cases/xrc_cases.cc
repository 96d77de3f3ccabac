// XRC domains that several processes share, as MPI libraries use them: one target for each peer and
// host, and a shared receive queue for each process.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "tests/system/cases/child.h"
#include "tests/verbs_provider/verbs_objects.h"

namespace uroce::verbs::testing {
namespace {

using Xrcd = std::unique_ptr<ibv_xrcd, Destroyer<ibv_xrcd, ibv_close_xrcd>>;

constexpr size_t kBufferBytes = 1 << 20;
constexpr size_t kReceives = kBufferBytes / 2;  // offset of the memory of receive requests

// A process as the initiator sees it, or the initiator as the target does.
struct Identity {
  ibv_gid gid;
  uint32_t qpn;
  uint32_t srqn;
  uint64_t address;
  uint32_t rkey;
};

struct Received {
  ibv_wc_status status;
  ibv_wc_opcode opcode;
  uint32_t bytes;
  uint32_t immediate;
  uint32_t qpn;
};

struct Command {
  enum What { kOpen, kClose, kCreate, kConnect, kPost, kReceive, kRead, kSet } what;
  uint64_t value = 0;
  uint64_t offset = 0;
  Identity peer{};
};

Xrcd OpenDomain(ibv_context* context, int fd, int flags) {
  ibv_xrcd_init_attr attr = {
      .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = fd, .oflags = flags};
  errno = 0;
  return Xrcd(ibv_open_xrcd(context, &attr));
}

ibv_gid OwnGid(ibv_context* context) {
  ibv_gid gid = {};
  EXPECT_EQ(ibv_query_gid(context, 1, 1, &gid), 0);
  return gid;
}

// A process that has opened the domain: it obeys commands until the test ends.
class Member {
 public:
  Member(const Line& line, int fd) : line_(line), fd_(fd) {
    while (true) Obey(line_.Hear<Command>());
  }

 private:
  void Obey(const Command& command) {
    switch (command.what) {
      case Command::kOpen: {
        Xrcd opened = OpenDomain(host_.context.get(), fd_, static_cast<int>(command.value));
        const int error = opened == nullptr ? errno : 0;
        if (opened != nullptr) domain_ = std::move(opened);
        return line_.Tell(error);
      }
      case Command::kClose:
        domain_.reset();
        return line_.Tell('.');
      case Command::kCreate:
        return Create();
      case Command::kConnect:
        EXPECT_EQ(ToInit(target_.get()), 0);
        EXPECT_EQ(ToRtr(target_.get(), command.peer.qpn, command.peer.gid), 0);
        return line_.Tell('.');
      case Command::kPost:
        EXPECT_EQ(PostReceive(srq_.get(), host_.Sge(kReceives, kReceives), command.value), 0);
        return line_.Tell('.');
      case Command::kReceive:
        return TellReceived();
      case Command::kRead: {
        uint64_t word;
        std::memcpy(&word, host_.data() + command.offset, sizeof word);
        return line_.Tell(word);
      }
      case Command::kSet:
        std::memcpy(host_.data() + command.offset, &command.value, sizeof command.value);
        return line_.Tell('.');
    }
  }

  void Create() {
    ibv_srq_init_attr_ex attr = {};
    attr.attr = {.max_wr = 64, .max_sge = 1, .srq_limit = 0};
    attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                     IBV_SRQ_INIT_ATTR_CQ;
    attr.srq_type = IBV_SRQT_XRC;
    attr.pd = host_.pd.get();
    attr.xrcd = domain_.get();
    attr.cq = cq_.get();
    srq_.reset(ibv_create_srq_ex(host_.context.get(), &attr));
    ibv_qp_init_attr_ex target = {};
    target.qp_type = IBV_QPT_XRC_RECV;
    target.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    target.xrcd = domain_.get();
    target_.reset(ibv_create_qp_ex(host_.context.get(), &target));
    Identity own = {OwnGid(host_.context.get()), target_->qp_num, 0, host_.address(),
                    host_.mr->rkey};
    EXPECT_EQ(ibv_get_srq_num(srq_.get(), &own.srqn), 0);
    line_.Tell(own);
  }

  void TellReceived() {
    const ibv_wc wc = WaitForCompletion(cq_.get());
    line_.Tell(Received{wc.status, wc.opcode, wc.byte_len, wc.imm_data, wc.qp_num});
  }

  const Line line_;
  const int fd_;
  Host host_{kBufferBytes};
  Cq cq_ = host_.CreateCq(128);
  Xrcd domain_;
  Srq srq_;
  Qp target_;
};

// The test is the initiator, its children are the owner of the target and another process.
class XrcDomainOfProcesses : public ::testing::Test {
 protected:
  XrcDomainOfProcesses() {
    host_ = std::make_unique<Host>(kBufferBytes);  // after the children are forked
    cq_ = host_->CreateCq(128);
  }
  ~XrcDomainOfProcesses() override { close(fd_); }

  template <class Answer = char>
  static Answer Tell(const Child& child, const Command& command) {
    child.line().Tell(command);
    return child.line().Hear<Answer>();
  }
  static int Open(const Child& child, int flags) {
    return Tell<int>(child, {.what = Command::kOpen, .value = static_cast<uint64_t>(flags)});
  }
  static uint64_t WordOf(const Child& child, uint64_t offset) {
    return Tell<uint64_t>(child, {.what = Command::kRead, .offset = offset});
  }
  static Received ReceivedBy(const Child& child) {
    return Tell<Received>(child, {.what = Command::kReceive});
  }
  static void Post(const Child& child, uint64_t id) {
    Tell(child, {.what = Command::kPost, .value = id});
  }

  // Opens the domain in both children, and connects the initiator to the owner's target.
  void Connect() {
    ASSERT_EQ(Open(owner_, O_CREAT), 0);
    ASSERT_EQ(Open(other_, 0), 0);
    owners_ = Tell<Identity>(owner_, {.what = Command::kCreate});
    others_ = Tell<Identity>(other_, {.what = Command::kCreate});
    const ibv_qp_init_attr basic = Attributes(IBV_QPT_XRC_SEND, cq_.get(), nullptr);
    ibv_qp_init_attr_ex attr = ExtendedAttributes(host_->pd.get(), basic, 0);
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    initiator_.reset(ibv_create_qp_ex(host_->context.get(), &attr));
    ASSERT_NE(initiator_, nullptr);
    const Identity own = {OwnGid(host_->context.get()), initiator_->qp_num, 0, 0, 0};
    Tell(owner_, {.what = Command::kConnect, .peer = own});
    ASSERT_EQ(ToInit(initiator_.get()), 0);
    ASSERT_EQ(ToRtr(initiator_.get(), owners_.qpn, owners_.gid), 0);
    ASSERT_EQ(ToRts(initiator_.get()), 0);
  }

  // Posts a request of `bytes` from the beginning of the initiator's memory.
  void Send(ibv_wr_opcode opcode, const Identity& to, uint32_t bytes, uint64_t id = 1,
            uint64_t remote_offset = 0) {
    SendRequest request(opcode, host_->Sge(0, bytes), id);
    request.qp_type.xrc.remote_srqn = to.srqn;
    request.imm_data = static_cast<uint32_t>(id);
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      request.wr.atomic = {to.address + remote_offset, 5, 0, to.rkey};
    } else {
      request.Remote(to.address + remote_offset, to.rkey);
    }
    ASSERT_EQ(request.Post(initiator_.get()), 0);
  }
  ibv_wc_status Complete() { return WaitForCompletion(cq_.get()).status; }
  void SetWord(uint64_t word) { std::memcpy(host_->data(), &word, sizeof word); }
  uint64_t Word() const {
    uint64_t word;
    std::memcpy(&word, host_->buffer.data(), sizeof word);
    return word;
  }

  const int fd_ = memfd_create("xrc domain", 0);
  Child owner_{[this](const Line& line) { Member(line, fd_); }};
  Child other_{[this](const Line& line) { Member(line, fd_); }};
  std::unique_ptr<Host> host_;
  Cq cq_;
  Qp initiator_;
  Identity owners_{};
  Identity others_{};
};

TEST_F(XrcDomainOfProcesses, IsThatOfTheFile) {
  EXPECT_EQ(Open(owner_, 0), EAGAIN);
  EXPECT_EQ(Open(owner_, O_CREAT | O_EXCL), 0);
  EXPECT_EQ(Open(other_, O_CREAT | O_EXCL), EINVAL);
  EXPECT_EQ(Open(other_, 0), 0);
  Tell(owner_, {.what = Command::kClose});
  EXPECT_EQ(Open(owner_, O_CREAT | O_EXCL), EINVAL) << "the other process has it";
  Tell(other_, {.what = Command::kClose});
  EXPECT_EQ(Open(owner_, 0), EAGAIN) << "it ended with its last opening";
  EXPECT_EQ(Open(other_, O_CREAT | O_EXCL), 0);
}

TEST_F(XrcDomainOfProcesses, EndsWithTheLastProcess) {
  ASSERT_EQ(Open(owner_, O_CREAT), 0);
  owner_.Signal(SIGKILL);
  owner_.ExitStatus();
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  int error = 0;
  while ((error = Open(other_, 0)) == 0 && std::chrono::steady_clock::now() < give_up) {
    Tell(other_, {.what = Command::kClose});  // the fabric has not seen the end yet
    std::this_thread::yield();
  }
  EXPECT_EQ(error, EAGAIN);
}

TEST_F(XrcDomainOfProcesses, SendsReachTheQueuesOfBoth) {
  ASSERT_NO_FATAL_FAILURE(Connect());
  for (uint64_t i = 0; i < 16; ++i) {
    Post(owner_, i);
    Post(other_, i);
  }
  for (uint64_t i = 0; i < 16; ++i) {
    const uint32_t bytes = i % 4 == 3 ? 100'000 : 8;
    SetWord(0x1234'5678 + i);
    Send(i % 2 == 0 ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM, i % 3 == 0 ? owners_ : others_, bytes, i);
    ASSERT_EQ(Complete(), IBV_WC_SUCCESS) << i;
    const Child& receiver = i % 3 == 0 ? owner_ : other_;
    const Received received = ReceivedBy(receiver);
    EXPECT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.bytes, bytes);
    EXPECT_EQ(received.qpn, owners_.qpn) << "the number of the target";
    if (i % 2 == 1) {
      EXPECT_EQ(received.immediate, i);
    }
    EXPECT_EQ(WordOf(receiver, kReceives), 0x1234'5678 + i);
  }
}

TEST_F(XrcDomainOfProcesses, MemoryIsThatOfTheQueuesProcess) {
  ASSERT_NO_FATAL_FAILURE(Connect());
  Post(other_, 1);
  SetWord(77);
  Send(IBV_WR_RDMA_WRITE, others_, 200'000, 1, 64);
  Send(IBV_WR_RDMA_WRITE_WITH_IMM, others_, 8, 2, 300'000);
  EXPECT_EQ(Complete(), IBV_WC_SUCCESS);
  EXPECT_EQ(Complete(), IBV_WC_SUCCESS);
  EXPECT_EQ(WordOf(other_, 64), 77u);
  const Received received = ReceivedBy(other_);
  EXPECT_EQ(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(received.immediate, 2u);
  Send(IBV_WR_ATOMIC_FETCH_AND_ADD, others_, 8, 3, 64);
  EXPECT_EQ(Complete(), IBV_WC_SUCCESS);
  EXPECT_EQ(Word(), 77u);
  Send(IBV_WR_RDMA_READ, others_, 200'000, 4, 64);
  EXPECT_EQ(Complete(), IBV_WC_SUCCESS);
  EXPECT_EQ(Word(), 82u);
  Send(IBV_WR_RDMA_READ, others_, 8, 5, kBufferBytes);
  EXPECT_EQ(Complete(), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(XrcDomainOfProcesses, MessageWaitsForAReceiveRequest) {
  ASSERT_NO_FATAL_FAILURE(Connect());
  SetWord(5);
  Send(IBV_WR_SEND, others_, 8);
  ibv_wc wc;
  for (int i = 0; i < 1'000; ++i) ASSERT_EQ(ibv_poll_cq(cq_.get(), 1, &wc), 0);
  Post(other_, 9);
  EXPECT_EQ(Complete(), IBV_WC_SUCCESS);
  EXPECT_EQ(ReceivedBy(other_).status, IBV_WC_SUCCESS);
  EXPECT_EQ(WordOf(other_, kReceives), 5u);
}

TEST_F(XrcDomainOfProcesses, StoppedProcessOfTheQueueIsWaitedFor) {
  ASSERT_NO_FATAL_FAILURE(Connect());
  Post(other_, 1);
  Post(other_, 2);
  Send(IBV_WR_SEND, others_, 8);
  ASSERT_EQ(Complete(), IBV_WC_SUCCESS);
  other_.Signal(SIGSTOP);
  Send(IBV_WR_SEND, others_, 8);
  std::this_thread::sleep_for(std::chrono::seconds(2));  // longer than all retries
  other_.Signal(SIGCONT);
  EXPECT_EQ(Complete(), IBV_WC_SUCCESS);
}

TEST_F(XrcDomainOfProcesses, DeathOfTheQueuesProcessIsReported) {
  ASSERT_NO_FATAL_FAILURE(Connect());
  Post(other_, 1);
  Send(IBV_WR_SEND, others_, 8);
  ASSERT_EQ(Complete(), IBV_WC_SUCCESS);
  Send(IBV_WR_SEND, others_, 8);  // finds no receive request
  other_.Signal(SIGKILL);
  const ibv_wc_status status = Complete();
  EXPECT_TRUE(status == IBV_WC_REM_OP_ERR || status == IBV_WC_REM_INV_REQ_ERR) << status;
}

TEST_F(XrcDomainOfProcesses, DeathOfTheTargetsProcessIsReported) {
  ASSERT_NO_FATAL_FAILURE(Connect());
  Post(other_, 1);
  Send(IBV_WR_SEND, others_, 8);
  ASSERT_EQ(Complete(), IBV_WC_SUCCESS);
  owner_.Signal(SIGKILL);
  owner_.ExitStatus();
  Send(IBV_WR_SEND, others_, 8);
  EXPECT_EQ(Complete(), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(ReceivedBy(other_).status, IBV_WC_SUCCESS) << "the first message";
}

}  // namespace
}  // namespace uroce::verbs::testing
