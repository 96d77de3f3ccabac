// XRC: domains by file, shared receive queues with numbers, initiators and targets, and targets
// with several handles.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "tests/verbs_provider/loopback.h"

namespace uroce::verbs::testing {
namespace {

using Xrcd = std::unique_ptr<ibv_xrcd, Destroyer<ibv_xrcd, ibv_close_xrcd>>;

constexpr uint32_t kTargetAttributes =
    IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE | IBV_QP_OPEN_ATTR_CONTEXT;
constexpr uint32_t kFdAndFlags = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;

Xrcd OpenDomain(ibv_context* context, int fd = -1, int flags = O_CREAT,
                uint32_t mask = kFdAndFlags) {
  ibv_xrcd_init_attr attr = {.comp_mask = mask, .fd = fd, .oflags = flags};
  errno = 0;
  return Xrcd(ibv_open_xrcd(context, &attr));
}

// A file without a name.
class File {
 public:
  File() : fd_(memfd_create("xrc", MFD_CLOEXEC)) { EXPECT_GE(fd_, 0); }
  ~File() { close(fd_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

class XrcTest : public LoopbackTest {
 protected:
  void SetUp() override {
    domain = OpenDomain(host.context.get());
    ASSERT_NE(domain, nullptr);
  }

  ibv_srq_init_attr_ex SrqAttributes(ibv_xrcd* xrcd) {
    ibv_srq_init_attr_ex attr = {};
    attr.srq_context = this;
    attr.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
    attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                     IBV_SRQ_INIT_ATTR_CQ;
    attr.srq_type = IBV_SRQT_XRC;
    attr.pd = host.pd.get();
    attr.xrcd = xrcd;
    attr.cq = receive_cq.get();
    return attr;
  }
  Srq CreateSrq(ibv_xrcd* xrcd) {
    ibv_srq_init_attr_ex attr = SrqAttributes(xrcd);
    Srq srq(ibv_create_srq_ex(host.context.get(), &attr));
    EXPECT_NE(srq, nullptr) << strerror(errno);
    return srq;
  }
  static uint32_t NumberOf(ibv_srq* srq) {
    uint32_t number = 0;
    EXPECT_EQ(ibv_get_srq_num(srq, &number), 0);
    return number;
  }
  Qp CreateInitiator(uint64_t operations = 0) {
    const ibv_qp_init_attr basic = Attributes(IBV_QPT_XRC_SEND, cq.get(), nullptr);
    ibv_qp_init_attr_ex attr = ExtendedAttributes(host.pd.get(), basic, operations);
    if (operations == 0) attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    Qp qp(ibv_create_qp_ex(host.context.get(), &attr));
    EXPECT_NE(qp, nullptr) << strerror(errno);
    return qp;
  }
  static ibv_qp_init_attr_ex TargetAttributes(ibv_xrcd* xrcd) {
    ibv_qp_init_attr_ex attr = {};
    attr.qp_type = IBV_QPT_XRC_RECV;
    attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    attr.xrcd = xrcd;
    return attr;
  }
  static Qp CreateTarget(ibv_xrcd* xrcd) {
    ibv_qp_init_attr_ex attr = TargetAttributes(xrcd);
    Qp qp(ibv_create_qp_ex(xrcd->context, &attr));
    EXPECT_NE(qp, nullptr) << strerror(errno);
    return qp;
  }
  static Qp OpenTarget(ibv_xrcd* xrcd, uint32_t qpn, void* context = nullptr,
                       ibv_qp_type type = IBV_QPT_XRC_RECV, uint32_t mask = kTargetAttributes) {
    ibv_qp_open_attr attr = {
        .comp_mask = mask, .qp_num = qpn, .xrcd = xrcd, .qp_context = context, .qp_type = type};
    errno = 0;
    return Qp(ibv_open_qp(xrcd->context, &attr));
  }
  // Sends 8 bytes. Returns the status of the request.
  ibv_wc_status SendTo(ibv_qp* initiator, uint32_t srqn) {
    SendRequest request(IBV_WR_SEND, host.Sge(0, 8));
    request.qp_type.xrc.remote_srqn = srqn;
    EXPECT_EQ(request.Post(initiator), 0);
    return WaitForCompletion(cq.get()).status;
  }

  Xrcd domain;
  const ibv_gid gid = OwnGid();
};

// --- domains

// As ib_uverbs_open_xrcd.
TEST_F(XrcTest, DomainsAreThoseOfTheirFiles) {
  const File file;
  ibv_context* const context = host.context.get();
  EXPECT_EQ(OpenDomain(context, file.fd(), 0), nullptr);
  EXPECT_EQ(errno, EAGAIN);
  const Xrcd created = OpenDomain(context, file.fd(), O_CREAT | O_EXCL);
  ASSERT_NE(created, nullptr);
  EXPECT_EQ(created->context, context);
  EXPECT_EQ(OpenDomain(context, file.fd(), O_CREAT | O_EXCL), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(OpenDomain(context, file.fd(), O_EXCL), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_NE(OpenDomain(context, file.fd(), 0), nullptr);
  const int other_fd = dup(file.fd());
  EXPECT_NE(OpenDomain(context, other_fd, O_CREAT), nullptr);
  close(other_fd);
}

TEST_F(XrcTest, ADomainEndsWithItsLastHandle) {
  const File file;
  ibv_context* const context = host.context.get();
  Xrcd first = OpenDomain(context, file.fd(), O_CREAT);
  Xrcd second = OpenDomain(context, file.fd(), 0);
  ASSERT_NE(second, nullptr);
  first.reset();
  EXPECT_NE(OpenDomain(context, file.fd(), 0), nullptr);
  second.reset();
  EXPECT_EQ(OpenDomain(context, file.fd(), 0), nullptr);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_NE(OpenDomain(context, file.fd(), O_CREAT | O_EXCL), nullptr);
}

TEST_F(XrcTest, OpeningADomainIsChecked) {
  ibv_context* const context = host.context.get();
  EXPECT_EQ(OpenDomain(context, 1'000'000, O_CREAT), nullptr);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(OpenDomain(context, -1, O_CREAT, IBV_XRCD_INIT_ATTR_FD), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(OpenDomain(context, -1, O_CREAT, kFdAndFlags | IBV_XRCD_INIT_ATTR_RESERVED), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_NE(OpenDomain(context, -1, 0), nullptr) << "without a file each is a new one";
}

TEST_F(XrcTest, ADomainInUseIsNotClosed) {
  Srq srq = CreateSrq(domain.get());
  EXPECT_EQ(ibv_close_xrcd(domain.get()), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(receive_cq.get()), EBUSY);
  srq.reset();
  Qp target = CreateTarget(domain.get());
  EXPECT_EQ(ibv_close_xrcd(domain.get()), EBUSY);
}

// --- shared receive queues

TEST_F(XrcTest, QueuesHaveNumbers) {
  const Srq one = CreateSrq(domain.get());
  const Srq two = CreateSrq(domain.get());
  EXPECT_NE(NumberOf(one.get()), NumberOf(two.get()));
  ibv_srq_init_attr basic = {.srq_context = nullptr,
                             .attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0}};
  const Srq other(ibv_create_srq(host.pd.get(), &basic));
  uint32_t number = 0;
  EXPECT_EQ(ibv_get_srq_num(other.get(), &number), EINVAL);
}

TEST_F(XrcTest, CreatingAQueueIsChecked) {
  for (const uint32_t missing :
       {IBV_SRQ_INIT_ATTR_XRCD, IBV_SRQ_INIT_ATTR_CQ, IBV_SRQ_INIT_ATTR_PD}) {
    ibv_srq_init_attr_ex attr = SrqAttributes(domain.get());
    attr.comp_mask &= ~missing;
    errno = 0;
    EXPECT_EQ(ibv_create_srq_ex(host.context.get(), &attr), nullptr);
    EXPECT_EQ(errno, EINVAL) << missing;
  }
  Host other;
  const Xrcd foreign = OpenDomain(other.context.get());
  ibv_srq_init_attr_ex attr = SrqAttributes(foreign.get());
  EXPECT_EQ(ibv_create_srq_ex(host.context.get(), &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  attr = SrqAttributes(domain.get());
  attr.srq_type = IBV_SRQT_TM;
  EXPECT_EQ(ibv_create_srq_ex(host.context.get(), &attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

// --- queue pairs

TEST_F(XrcTest, AnInitiatorHasASendQueueOnly) {
  ibv_qp_init_attr attr = Attributes(IBV_QPT_XRC_SEND, cq.get(), receive_cq.get());
  const Qp qp(ibv_create_qp(host.pd.get(), &attr));
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(qp->qp_type, IBV_QPT_XRC_SEND);
  EXPECT_EQ(attr.cap.max_recv_wr, 0u);
  EXPECT_GE(attr.cap.max_send_wr, 16u);
  EXPECT_EQ(qp->recv_cq, receive_cq.get()) << "it is shown as it was passed";
  receive_cq.reset();  // the queue is not used
}

TEST_F(XrcTest, ATargetHasADomainOnly) {
  ibv_qp_init_attr_ex attr = TargetAttributes(domain.get());
  attr.cap.max_send_wr = 9;
  const Qp qp(ibv_create_qp_ex(host.context.get(), &attr));
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(attr.cap.max_send_wr, 0u);
  EXPECT_EQ(qp->pd, nullptr);
  EXPECT_EQ(qp->send_cq, nullptr);
  attr.comp_mask |= IBV_QP_INIT_ATTR_PD;
  attr.pd = host.pd.get();
  const Qp with_pd(ibv_create_qp_ex(host.context.get(), &attr));
  ASSERT_NE(with_pd, nullptr);
  EXPECT_EQ(with_pd->pd, host.pd.get()) << "librdmacm takes it from there";
  ibv_qp_attr queried;
  ibv_qp_init_attr init;
  ASSERT_EQ(ibv_query_qp(qp.get(), &queried, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(queried.qp_state, IBV_QPS_RESET);
  EXPECT_EQ(init.qp_type, IBV_QPT_XRC_RECV);
  EXPECT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 8)).Post(qp.get()), EINVAL);
  EXPECT_EQ(PostReceive(qp.get(), host.Sge(0, 8), 1), EINVAL);
}

TEST_F(XrcTest, CreatingATargetIsChecked) {
  ibv_qp_init_attr_ex attr = TargetAttributes(domain.get());
  attr.comp_mask = IBV_QP_INIT_ATTR_PD;
  attr.pd = host.pd.get();
  errno = 0;
  EXPECT_EQ(ibv_create_qp_ex(host.context.get(), &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  const Host other;
  attr = TargetAttributes(domain.get());
  errno = 0;
  EXPECT_EQ(ibv_create_qp_ex(other.context.get(), &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

// As in the kernel (modify_qp_mask): perftest sets the attributes of RC for both halves.
TEST_F(XrcTest, AttributesOfTheOtherHalfAreIgnored) {
  const Qp initiator = CreateInitiator();
  const Qp target = CreateTarget(domain.get());
  ConnectLoopback(initiator.get(), target.get(), {.min_rnr_timer = 9});
  ibv_qp_attr attr = {};
  attr.min_rnr_timer = 10;
  EXPECT_EQ(ibv_modify_qp(initiator.get(), &attr, IBV_QP_MIN_RNR_TIMER), 0);
  EXPECT_EQ(Query(initiator.get()).min_rnr_timer, 0);
  attr.retry_cnt = 3;
  EXPECT_EQ(ibv_modify_qp(target.get(), &attr, IBV_QP_RETRY_CNT | IBV_QP_MIN_RNR_TIMER), 0);
  EXPECT_EQ(Query(target.get()).retry_cnt, 0);
  EXPECT_EQ(Query(target.get()).min_rnr_timer, 10);
}

// As in the kernel: a queue pair of another type cannot use an XRC shared receive queue.
TEST_F(XrcTest, AnRcQueuePairDoesNotTakeAnXrcQueue) {
  const Srq srq = CreateSrq(domain.get());
  ibv_qp_init_attr attr = Attributes(IBV_QPT_RC, cq.get(), cq.get(), srq.get());
  errno = 0;
  EXPECT_EQ(ibv_create_qp(host.pd.get(), &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(XrcTest, SendsReachTheQueueThatTheyName) {
  const Srq one = CreateSrq(domain.get());
  const Srq two = CreateSrq(domain.get());
  const Qp initiator = CreateInitiator();
  const Qp target = CreateTarget(domain.get());
  ConnectLoopback(initiator.get(), target.get());
  std::memcpy(host.data(), "to two..", 8);
  ASSERT_EQ(PostReceive(one.get(), host.Sge(kUpper, 8), 1), 0);
  ASSERT_EQ(PostReceive(two.get(), host.Sge(kUpper + 8, 8), 2), 0);
  EXPECT_EQ(SendTo(initiator.get(), NumberOf(two.get())), IBV_WC_SUCCESS);
  ibv_wc wc = WaitForCompletion(receive_cq.get());
  EXPECT_EQ(wc.wr_id, 2u);
  EXPECT_EQ(wc.qp_num, target->qp_num);
  EXPECT_EQ(wc.src_qp, initiator->qp_num);
  EXPECT_EQ(wc.byte_len, 8u);
  EXPECT_EQ(std::memcmp(host.data() + kUpper + 8, "to two..", 8), 0);
  EXPECT_EQ(SendTo(initiator.get(), NumberOf(one.get())), IBV_WC_SUCCESS);
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).wr_id, 1u);
}

TEST_F(XrcTest, ReadsWritesAndAtomics) {
  const Srq srq = CreateSrq(domain.get());
  const Qp initiator = CreateInitiator();
  const Qp target = CreateTarget(domain.get());
  ConnectLoopback(initiator.get(), target.get());
  const auto run = [&](SendRequest&& request) {
    request.qp_type.xrc.remote_srqn = NumberOf(srq.get());
    EXPECT_EQ(request.Post(initiator.get()), 0);
    EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
  };
  const uint32_t rkey = host.mr->rkey;
  std::memset(host.data(), 0x5a, 4'000);
  run(std::move(
      SendRequest(IBV_WR_RDMA_WRITE, host.Sge(0, 4'000)).Remote(host.address(kUpper), rkey)));
  EXPECT_EQ(std::memcmp(host.data(), host.data() + kUpper, 4'000), 0);
  std::memset(host.data() + kUpper, 0x77, 4'000);
  run(std::move(
      SendRequest(IBV_WR_RDMA_READ, host.Sge(0, 4'000)).Remote(host.address(kUpper), rkey)));
  EXPECT_EQ(std::memcmp(host.data(), host.data() + kUpper, 4'000), 0);
  SendRequest add(IBV_WR_ATOMIC_FETCH_AND_ADD, host.Sge(0, 8));
  add.Remote(host.address(kUpper), rkey);
  add.wr.atomic.compare_add = 1;
  add.qp_type.xrc.remote_srqn = NumberOf(srq.get());
  EXPECT_EQ(add.Post(initiator.get()), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(host.data()[kUpper], 0x78);
}

TEST_F(XrcTest, TheExtendedInterfaceNamesTheQueue) {
  const Srq srq = CreateSrq(domain.get());
  const Qp initiator = CreateInitiator(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM);
  const Qp target = CreateTarget(domain.get());
  ConnectLoopback(initiator.get(), target.get());
  ibv_qp_ex* const ex = ibv_qp_to_qp_ex(initiator.get());
  ASSERT_NE(ex, nullptr);
  ASSERT_EQ(PostReceive(srq.get(), host.Sge(kUpper, 8), 1), 0);
  ASSERT_EQ(PostReceive(srq.get(), host.Sge(kUpper, 8), 2), 0);
  ibv_wr_start(ex);
  ex->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(ex);
  ibv_wr_set_xrc_srqn(ex, NumberOf(srq.get()));
  ibv_wr_set_sge(ex, host.mr->lkey, host.address(), 8);
  ibv_wr_rdma_write_imm(ex, host.mr->rkey, host.address(kUpper), 7);
  ibv_wr_set_xrc_srqn(ex, NumberOf(srq.get()));
  ibv_wr_set_sge(ex, host.mr->lkey, host.address(), 8);
  ASSERT_EQ(ibv_wr_complete(ex), 0);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).wr_id, 1u);
  const ibv_wc second = WaitForCompletion(receive_cq.get());
  EXPECT_EQ(second.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(second.imm_data, 7u);
}

TEST_F(XrcTest, AQueueOfAnotherDomainIsNotReached) {
  const Xrcd other = OpenDomain(host.context.get());
  const Srq srq = CreateSrq(other.get());
  ASSERT_EQ(PostReceive(srq.get(), host.Sge(kUpper, 8), 1), 0);
  const Qp initiator = CreateInitiator();
  const Qp target = CreateTarget(domain.get());
  ConnectLoopback(initiator.get(), target.get());
  EXPECT_EQ(SendTo(initiator.get(), NumberOf(srq.get())), IBV_WC_REM_INV_REQ_ERR);
  ExpectAsyncEvent(host.context.get(), IBV_EVENT_QP_ACCESS_ERR, target.get());
  EXPECT_EQ(Query(target.get()).qp_state, IBV_QPS_ERR);
}

TEST_F(XrcTest, AnEmptyQueueIsWaitedFor) {
  const Srq srq = CreateSrq(domain.get());
  const Qp initiator = CreateInitiator();
  const Qp target = CreateTarget(domain.get());
  ConnectLoopback(initiator.get(), target.get(), {.rnr_retry = 0});
  EXPECT_EQ(SendTo(initiator.get(), NumberOf(srq.get())), IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST_F(XrcTest, LimitReachedIsRaised) {
  const Srq srq = CreateSrq(domain.get());
  const Qp initiator = CreateInitiator();
  const Qp target = CreateTarget(domain.get());
  ConnectLoopback(initiator.get(), target.get());
  ASSERT_EQ(PostReceive(srq.get(), host.Sge(kUpper, 8), 1), 0);
  ibv_srq_attr limit = {.max_wr = 0, .max_sge = 0, .srq_limit = 1};
  ASSERT_EQ(ibv_modify_srq(srq.get(), &limit, IBV_SRQ_LIMIT), 0);
  EXPECT_EQ(SendTo(initiator.get(), NumberOf(srq.get())), IBV_WC_SUCCESS);
  ExpectAsyncEvent(host.context.get(), IBV_EVENT_SRQ_LIMIT_REACHED, srq.get());
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).wr_id, 1u);
}

// --- targets with several handles

TEST_F(XrcTest, ATargetIsOpenedByItsNumber) {
  const Qp target = CreateTarget(domain.get());
  int context = 0;
  const Qp opened = OpenTarget(domain.get(), target->qp_num, &context);
  ASSERT_NE(opened, nullptr);
  EXPECT_EQ(opened->qp_num, target->qp_num);
  EXPECT_EQ(opened->qp_type, IBV_QPT_XRC_RECV);
  EXPECT_EQ(opened->qp_context, &context);
  EXPECT_EQ(ToInit(opened.get()), 0);
  EXPECT_EQ(Query(target.get()).qp_state, IBV_QPS_INIT) << "it is the same";
}

TEST_F(XrcTest, OpeningATargetIsChecked) {
  const Qp target = CreateTarget(domain.get());
  EXPECT_EQ(OpenTarget(domain.get(), target->qp_num + 1), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(OpenTarget(domain.get(), target->qp_num, nullptr, IBV_QPT_RC), nullptr);
  EXPECT_EQ(errno, EINVAL);
  const Xrcd other = OpenDomain(host.context.get());
  EXPECT_EQ(OpenTarget(other.get(), target->qp_num), nullptr);
  EXPECT_EQ(errno, EINVAL);
  const Qp initiator = CreateInitiator();
  EXPECT_EQ(OpenTarget(domain.get(), initiator->qp_num), nullptr);
  EXPECT_EQ(errno, EINVAL);
  for (const uint32_t missing :
       {IBV_QP_OPEN_ATTR_NUM, IBV_QP_OPEN_ATTR_XRCD, IBV_QP_OPEN_ATTR_TYPE}) {
    const uint32_t mask = kTargetAttributes & ~missing;
    EXPECT_EQ(OpenTarget(domain.get(), target->qp_num, nullptr, IBV_QPT_XRC_RECV, mask), nullptr);
    EXPECT_EQ(errno, EINVAL) << missing;
  }
}

TEST_F(XrcTest, ATargetLastsUntilTheLastOfItsHandles) {
  const Srq srq = CreateSrq(domain.get());
  const Qp initiator = CreateInitiator();
  Qp target = CreateTarget(domain.get());
  const uint32_t qpn = target->qp_num;
  Qp second = OpenTarget(domain.get(), qpn);
  Qp third = OpenTarget(domain.get(), qpn);
  ConnectLoopback(initiator.get(), target.get());
  target.reset();
  ASSERT_EQ(PostReceive(srq.get(), host.Sge(kUpper, 8), 1), 0);
  EXPECT_EQ(SendTo(initiator.get(), NumberOf(srq.get())), IBV_WC_SUCCESS);
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).qp_num, qpn);
  third.reset();
  EXPECT_EQ(Query(second.get()).qp_state, IBV_QPS_RTS);
  second.reset();
  EXPECT_EQ(OpenTarget(domain.get(), qpn), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

// As in the kernel: each remaining handle gets the event.
TEST_F(XrcTest, EventsOfATargetGoToAllItsHandles) {
  const Qp initiator = CreateInitiator();
  Qp target = CreateTarget(domain.get());
  const Qp second = OpenTarget(domain.get(), target->qp_num);
  const Qp third = OpenTarget(domain.get(), target->qp_num);
  ConnectLoopback(initiator.get(), target.get());
  target.reset();
  const Qp in_its_place = CreateTarget(domain.get());
  EXPECT_EQ(SendTo(initiator.get(), 1), IBV_WC_REM_INV_REQ_ERR);
  ExpectAsyncEvent(host.context.get(), IBV_EVENT_QP_ACCESS_ERR, third.get());
  ExpectAsyncEvent(host.context.get(), IBV_EVENT_QP_ACCESS_ERR, second.get());
  ExpectNoAsyncEvent(host.context.get());
}

// Two parts of a program that share nothing but the file.
TEST_F(XrcTest, TwoContextsShareADomainByItsFile) {
  const File file;
  const Xrcd ours = OpenDomain(host.context.get(), file.fd(), O_CREAT);
  const Srq srq = CreateSrq(ours.get());
  const Qp initiator = CreateInitiator();
  Context other = OpenUroce();
  ibv_xrcd_init_attr attr = {.comp_mask = kFdAndFlags, .fd = file.fd(), .oflags = 0};
  // Left to the context instead of destroyed; static, so that no leak is reported.
  static ibv_xrcd* theirs;
  static ibv_qp* target;
  theirs = ibv_open_xrcd(other.get(), &attr);
  ASSERT_NE(theirs, nullptr);
  ibv_qp_init_attr_ex target_attr = TargetAttributes(theirs);
  target = ibv_create_qp_ex(other.get(), &target_attr);
  ASSERT_NE(target, nullptr);
  const Qp opened = OpenTarget(ours.get(), target->qp_num);
  ASSERT_NE(opened, nullptr);
  ConnectLoopback(initiator.get(), target);
  ASSERT_EQ(PostReceive(srq.get(), host.Sge(kUpper, 8), 1), 0);
  ASSERT_EQ(PostReceive(srq.get(), host.Sge(kUpper, 8), 2), 0);
  EXPECT_EQ(SendTo(initiator.get(), NumberOf(srq.get())), IBV_WC_SUCCESS);
  // Closing a context leaves objects that others have opened.
  other.reset();
  EXPECT_EQ(SendTo(initiator.get(), NumberOf(srq.get())), IBV_WC_SUCCESS);
  for (uint64_t i = 1; i <= 2; ++i) EXPECT_EQ(WaitForCompletion(receive_cq.get()).wr_id, i);
}

// A queue may be destroyed while targets of its domain are connected.
TEST_F(XrcTest, AQueueThatIsGoneIsNotReached) {
  Srq srq = CreateSrq(domain.get());
  const uint32_t number = NumberOf(srq.get());
  const Qp initiator = CreateInitiator();
  const Qp target = CreateTarget(domain.get());
  ConnectLoopback(initiator.get(), target.get());
  srq.reset();
  EXPECT_EQ(SendTo(initiator.get(), number), IBV_WC_REM_INV_REQ_ERR);
  ExpectAsyncEvent(host.context.get(), IBV_EVENT_QP_ACCESS_ERR, target.get());
}

}  // namespace
}  // namespace uroce::verbs::testing
