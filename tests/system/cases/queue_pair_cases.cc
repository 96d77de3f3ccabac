// Queue pairs at the edges of their life: full, misconnected, in error, early, used again.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/verbs_provider/reliable_pair_fixture.h"

namespace uroce::verbs::testing {
namespace {

class QueuePairCases : public ReliablePairTest {
 protected:
  SendRequest Write(uint32_t bytes, uint64_t id = 1) {
    return SendRequest(IBV_WR_RDMA_WRITE, host.Sge(0, bytes), id);
  }
  ibv_gid gid = OwnGid();
};

// Ceph #25447, SPDK #1697: how a program drains a queue pair with a shared receive queue. It moves
// the queue pair to ERR, posts a last request (the beacon) and waits for LAST_WQE_REACHED.
class SharedReceiveQueueCases : public LoopbackTest {
 protected:
  void SetUp() override {
    ibv_srq_init_attr attr = {.srq_context = nullptr,
                              .attr = {.max_wr = 16, .max_sge = 1, .srq_limit = 0}};
    srq.reset(ibv_create_srq(host.pd.get(), &attr));
    ASSERT_NE(srq, nullptr);
  }
  Qp Create(ibv_srq* shared) {
    ibv_qp_init_attr attr = Attributes(IBV_QPT_RC, cq.get(), receive_cq.get(), shared);
    return Qp(ibv_create_qp(host.pd.get(), &attr));
  }

  Srq srq;
};

TEST_F(SharedReceiveQueueCases, BeaconPostedInErrorFlushesLast) {
  const Qp peer = Create(nullptr);
  const Qp drained = Create(srq.get());
  ConnectLoopback(peer.get(), drained.get());
  ASSERT_EQ(PostReceive(srq.get(), host.Sge(kUpper, 64), 100), 0);
  ASSERT_EQ(Modify(drained.get(), IBV_QPS_ERR), 0);
  ExpectAsyncEvent(host.context.get(), IBV_EVENT_QP_LAST_WQE_REACHED, drained.get());
  ExpectNoAsyncEvent(host.context.get());
  for (uint64_t id = 10; id <= 12; ++id) {
    SendRequest send(IBV_WR_SEND, host.Sge(0, 8), id);
    send.send_flags = id == 12 ? IBV_SEND_SIGNALED : 0;
    ASSERT_EQ(send.Post(drained.get()), 0);
  }
  for (uint64_t id = 10; id <= 12; ++id) {
    const ibv_wc wc = WaitForCompletion(cq.get());
    EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(wc.wr_id, id);
    EXPECT_EQ(wc.qp_num, drained->qp_num);
  }
  ExpectNothingReceived();
}

TEST_F(SharedReceiveQueueCases, ErrorOfTheResponderReachesTheLastWqeToo) {
  const Qp requester = Create(nullptr);
  const Qp responder = Create(srq.get());
  ConnectLoopback(requester.get(), responder.get());
  SendRequest write(IBV_WR_RDMA_WRITE, host.Sge(0, 8));
  ASSERT_EQ(write.Remote(host.address(), host.mr->rkey ^ 0xff00).Post(requester.get()), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_REM_ACCESS_ERR);
  ExpectAsyncEvent(host.context.get(), IBV_EVENT_QP_ACCESS_ERR, responder.get());
  ExpectAsyncEvent(host.context.get(), IBV_EVENT_QP_LAST_WQE_REACHED, responder.get());
}

// SPDK #3195, #640, #3069: a chain longer than the queue. What fits is posted; ENOMEM names the
// first request that does not.
TEST_F(QueuePairCases, ChainBeyondTheQueueIsPostedUpToItsEnd) {
  const size_t depth = Query(a.get()).cap.max_send_wr;
  ibv_sge piece = host.Sge(0, 16);
  std::vector<ibv_send_wr> chain(depth + 3);
  for (size_t i = 0; i < chain.size(); ++i) {
    chain[i].wr_id = i;
    chain[i].sg_list = &piece;
    chain[i].num_sge = 1;
    chain[i].opcode = IBV_WR_SEND;
    chain[i].next = i + 1 < chain.size() ? &chain[i + 1] : nullptr;
    chain[i].send_flags = i + 1 == depth ? IBV_SEND_SIGNALED : 0;
  }
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(a.get(), chain.data(), &bad), ENOMEM);
  EXPECT_EQ(bad, &chain[depth]);
  EXPECT_EQ(ibv_post_send(a.get(), &chain.back(), &bad), ENOMEM);

  // The receiver was not ready, so all of them wait. One signaled completion frees every slot.
  for (size_t i = 0; i < depth; ++i) {
    ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 64), 1000 + i), 0);
  }
  ExpectSuccess(IBV_WC_SEND, depth - 1);
  for (size_t i = 0; i < depth; ++i) {
    EXPECT_EQ(WaitForCompletion(receive_cq.get()).wr_id, 1000 + i);
  }
  chain[depth - 1].next = nullptr;
  EXPECT_EQ(ibv_post_send(a.get(), chain.data(), &bad), 0);
}

// SPDK's and UCX's scatter lists have empty entries, with no key worth the name: an entry of length
// 0 is nothing, not 2 GiB, and its key is not looked up.
TEST_F(QueuePairCases, EmptyPiecesNeedNoKey) {
  constexpr size_t kPieces = 32;
  ibv_qp_init_attr attr = RcAttributes(cq.get(), receive_cq.get());
  attr.cap.max_send_sge = kPieces;
  const Qp c(ibv_create_qp(host.pd.get(), &attr));
  const Qp d(ibv_create_qp(host.pd.get(), &attr));
  ConnectLoopback(c.get(), d.get());

  std::minstd_rand random(19);
  std::array<ibv_sge, kPieces> pieces;
  std::vector<uint8_t> expected;
  size_t offset = 0;
  for (size_t i = 0; i < kPieces; ++i) {
    const uint32_t length = i % 3 == 1 ? 0 : static_cast<uint32_t>(random() % 1500);
    pieces[i] = host.Sge(offset, length);
    if (length == 0) pieces[i] = {.addr = 0, .length = 0, .lkey = 0xdead};
    expected.insert(expected.end(), host.data() + offset, host.data() + offset + length);
    offset += length + 7;
  }
  ASSERT_LT(offset, kUpper);
  SendRequest request(IBV_WR_RDMA_WRITE, {});
  request.sg_list = pieces.data();
  request.num_sge = kPieces;
  ASSERT_EQ(request.Remote(host.address(kUpper), host.mr->rkey).Post(c.get()), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), host.data() + kUpper));
  EXPECT_EQ(host.data()[kUpper + expected.size()], 0);

  // The READ back puts every byte where it was.
  const std::vector<uint8_t> before(host.data(), host.data() + kUpper);
  for (const ibv_sge& piece : pieces) {
    if (piece.length != 0) std::memset(reinterpret_cast<void*>(piece.addr), 0, piece.length);
  }
  request.opcode = IBV_WR_RDMA_READ;
  ASSERT_EQ(request.Post(c.get()), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), host.data()));
}

// IBA C9-88: the R_Key of a request without data is not checked.
TEST_F(QueuePairCases, RequestOfLengthZeroNeedsNoKey) {
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    SendRequest request(opcode, {});
    ASSERT_EQ(request.Remote(0, 0xabcdef).Post(a.get()), 0);
    EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS) << opcode;
  }
}

// tensorpipe #416, libfabric #5653 and #7365, SPDK #3212: programs read the opcode of an error
// completion, though only four fields are promised. rxe and mlx5 fill it in.
TEST_F(QueuePairCases, ErrorCompletionsHaveTheirOpcodeAndTheOrderOfPosting) {
  constexpr std::array<std::pair<ibv_wr_opcode, ibv_wc_opcode>, 7> kOpcodes = {{
      {IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE},
      {IBV_WR_SEND, IBV_WC_SEND},
      {IBV_WR_RDMA_READ, IBV_WC_RDMA_READ},
      {IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE},
      {IBV_WR_SEND_WITH_IMM, IBV_WC_SEND},
      {IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD},
      {IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP},
  }};
  for (uint64_t id = 100; id < 103; ++id) {
    ASSERT_EQ(PostReceive(a.get(), host.Sge(kUpper, 64), id), 0);
  }
  for (size_t i = 0; i < kOpcodes.size(); ++i) {
    SendRequest request(kOpcodes[i].first, host.Sge(0, 8), i);
    if (i != 0) request.send_flags = 0;  // errors complete even so
    const uint32_t rkey = i == 0 ? host.mr->rkey ^ 0x5500 : host.mr->rkey;
    ASSERT_EQ(request.Remote(host.address(kUpper), rkey).Post(a.get()), 0);
  }
  for (size_t i = 0; i < kOpcodes.size(); ++i) {
    const ibv_wc wc = WaitForCompletion(cq.get());
    EXPECT_EQ(wc.wr_id, i);
    EXPECT_EQ(wc.status, i == 0 ? IBV_WC_REM_ACCESS_ERR : IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(wc.opcode, kOpcodes[i].second);
    EXPECT_EQ(wc.qp_num, a->qp_num);
  }
  for (uint64_t id = 100; id < 103; ++id) {
    const ibv_wc wc = WaitForCompletion(receive_cq.get());
    EXPECT_EQ(wc.wr_id, id);
    EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(wc.opcode, IBV_WC_RECV);
  }
}

// libfabric and Ceph exchange queue pair numbers out of band, so that one end is ready first. A
// message to a queue pair in INIT is dropped, not refused: the sender's retries find it in RTR.
TEST_F(QueuePairCases, MessageToAQueuePairInInitIsSentAgain) {
  const Qp early = Create();
  const Qp late = Create();
  ASSERT_EQ(ToInit(early.get()), 0);
  ASSERT_EQ(ToInit(late.get()), 0);
  ASSERT_EQ(PostReceive(late.get(), host.Sge(kUpper, 64), 1), 0);
  ASSERT_EQ(ToRtr(early.get(), late->qp_num, gid), 0);
  ASSERT_EQ(ToRts(early.get()), 0);
  ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 8), 2).Post(early.get()), 0);
  ibv_wc wc;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ibv_poll_cq(cq.get(), 1, &wc), 0);
  ASSERT_EQ(ToRtr(late.get(), early->qp_num, gid), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).wr_id, 1u);
  ExpectAsyncEvent(host.context.get(), IBV_EVENT_COMM_EST, late.get());
}

TEST_F(QueuePairCases, QueuePairThatWasResetKnowsNothingOfItsOldLife) {
  ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 64), 90), 0);
  ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 8), 91).Post(a.get()), 0);
  ASSERT_EQ(Modify(a.get(), IBV_QPS_RESET), 0);
  ASSERT_EQ(Modify(b.get(), IBV_QPS_RESET), 0);
  ConnectLoopback(a.get(), b.get());
  ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 64), 11), 0);
  ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 8), 12).Post(a.get()), 0);
  ExpectSuccess(IBV_WC_SEND, 12);
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).wr_id, 11u);
}

// Mooncake #721 and others modify in steps that seem idle. The kernel's table allows each of these.
TEST_F(QueuePairCases, ResetAndErrorMayBeEnteredAgain) {
  const Qp qp = Create();
  for (const ibv_qp_state state :
       {IBV_QPS_RESET, IBV_QPS_ERR, IBV_QPS_ERR, IBV_QPS_RESET, IBV_QPS_RESET}) {
    EXPECT_EQ(Modify(qp.get(), state), 0) << state;
    EXPECT_EQ(Query(qp.get()).qp_state, state);
  }
}

// smart #2, rdma-sys #24: an address vector that cannot be right is refused at RTR, not found by
// retries, and the queue pair can be given the right one then.
TEST_F(QueuePairCases, WrongAddressVectorIsRefusedAtRtr) {
  const Qp qp = Create();
  ASSERT_EQ(ToInit(qp.get()), 0);
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = 17;
  attr.ah_attr.dlid = 1;
  attr.ah_attr.port_num = 1;
  constexpr int kRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, kRtr), EINVAL) << "is_global is 0";
  attr.ah_attr = AddressOf(gid, 200);
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, kRtr), EINVAL) << "no such GID of ours";
  attr.ah_attr = AddressOf(gid, /*gid_index=*/0);
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, kRtr), EINVAL) << "IPv6 to IPv4";
  attr.ah_attr = AddressOf(OwnGid(0), 1);
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, kRtr), EINVAL) << "IPv4 to IPv6";
  attr.ah_attr = AddressOf(gid, 1);
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, kRtr), 0);
  attr.qp_state = IBV_QPS_RTS;
  attr.cur_qp_state = IBV_QPS_RTR;
  constexpr int kRts = IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  attr.retry_cnt = 8;  // of 3 bits
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, kRts), EINVAL);
  attr.retry_cnt = 7;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, kRts), 0);
}

// Mooncake #3868, NCCL #1524 and PR #2135: the two ends have different path MTUs. Messages of one
// packet that fits both pass; of the others the responder refuses the first packet that is longer
// than its path MTU, or shorter where it may not be. No wrong data, and no waiting for retries.
struct MtuMismatch {
  ibv_mtu requester;
  ibv_mtu responder;
  ibv_wr_opcode opcode;
  uint32_t bytes;
  ibv_wc_status status;
};

class PathMtuCases : public ReliablePairTest, public ::testing::WithParamInterface<MtuMismatch> {
 protected:
  void SetUp() override {
    ReliablePairTest::SetUp();
    ASSERT_EQ(Modify(a.get(), IBV_QPS_RESET), 0);
    ASSERT_EQ(Modify(b.get(), IBV_QPS_RESET), 0);
    Connect(a.get(), b->qp_num, GetParam().requester);
    Connect(b.get(), a->qp_num, GetParam().responder);
  }
  void Connect(ibv_qp* qp, uint32_t peer, ibv_mtu mtu) {
    ConnectOptions options;
    options.mtu = mtu;
    ASSERT_EQ(ToInit(qp, options), 0);
    ASSERT_EQ(ToRtr(qp, peer, OwnGid(), options), 0);
    ASSERT_EQ(ToRts(qp, options), 0);
  }
};

TEST_P(PathMtuCases, LengthDecides) {
  const MtuMismatch& mismatch = GetParam();
  ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 30'000), 9), 0);
  SendRequest request(mismatch.opcode, host.Sge(0, mismatch.bytes));
  ASSERT_EQ(request.Remote(host.address(kUpper), host.mr->rkey).Post(a.get()), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, mismatch.status);
  EXPECT_EQ(Arrived(0, kUpper, mismatch.bytes), mismatch.status == IBV_WC_SUCCESS);
}

constexpr MtuMismatch kMismatches[] = {
    {IBV_MTU_4096, IBV_MTU_1024, IBV_WR_RDMA_WRITE, 800, IBV_WC_SUCCESS},
    {IBV_MTU_4096, IBV_MTU_1024, IBV_WR_RDMA_WRITE, 3'000, IBV_WC_REM_INV_REQ_ERR},
    {IBV_MTU_4096, IBV_MTU_1024, IBV_WR_RDMA_WRITE, 20'000, IBV_WC_REM_INV_REQ_ERR},
    {IBV_MTU_4096, IBV_MTU_1024, IBV_WR_SEND, 20'000, IBV_WC_REM_INV_REQ_ERR},
    {IBV_MTU_4096, IBV_MTU_1024, IBV_WR_RDMA_READ, 1'000, IBV_WC_SUCCESS},
    {IBV_MTU_4096, IBV_MTU_1024, IBV_WR_RDMA_READ, 20'000, IBV_WC_BAD_RESP_ERR},
    {IBV_MTU_1024, IBV_MTU_4096, IBV_WR_RDMA_WRITE, 1'024, IBV_WC_SUCCESS},
    {IBV_MTU_1024, IBV_MTU_4096, IBV_WR_RDMA_WRITE, 3'000, IBV_WC_REM_INV_REQ_ERR},
    {IBV_MTU_1024, IBV_MTU_4096, IBV_WR_SEND, 20'000, IBV_WC_REM_INV_REQ_ERR},
    {IBV_MTU_1024, IBV_MTU_4096, IBV_WR_RDMA_READ, 1'024, IBV_WC_SUCCESS},
    {IBV_MTU_1024, IBV_MTU_4096, IBV_WR_RDMA_READ, 3'000, IBV_WC_BAD_RESP_ERR},
    {IBV_MTU_1024, IBV_MTU_4096, IBV_WR_RDMA_READ, 20'000, IBV_WC_BAD_RESP_ERR},
};

INSTANTIATE_TEST_SUITE_P(Mismatch, PathMtuCases, ::testing::ValuesIn(kMismatches),
                         [](const auto& instance) {
                           const MtuMismatch& m = instance.param;
                           return "From" + std::to_string(128 << m.requester) + "To" +
                                  std::to_string(128 << m.responder) + "Opcode" +
                                  std::to_string(m.opcode) + "Bytes" + std::to_string(m.bytes);
                         });

// Objects in use, with all of their users at once (the questions below rdmamojo's pages of
// ibv_destroy_cq and ibv_dealloc_pd): EBUSY, and everything works on.
TEST_F(QueuePairCases, ObjectInUseIsBusyAndWorksOn) {
  const Channel channel(ibv_create_comp_channel(host.context.get()));
  Cq announced = host.CreateCq(16, channel.get());
  EXPECT_EQ(ibv_destroy_comp_channel(channel.get()), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(cq.get()), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(host.pd.get()), EBUSY);

  const Mr mr(ibv_reg_mr(host.pd.get(), host.data() + kUpper, 4096, Host::kAllAccess));
  {
    const Mw mw(ibv_alloc_mw(host.pd.get(), IBV_MW_TYPE_2));
    ASSERT_NE(mw, nullptr);
    SendRequest bind(IBV_WR_BIND_MW, {});
    bind.bind_mw.mw = mw.get();
    bind.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
    bind.bind_mw.bind_info = {.mr = mr.get(),
                              .addr = host.address(kUpper),
                              .length = 4096,
                              .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
    const uint32_t rkey = bind.bind_mw.rkey;
    ASSERT_EQ(bind.Post(b.get()), 0);
    EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_dereg_mr(mr.get()), EBUSY) << "a window is bound to it";
    SendRequest write = Write(8);
    ASSERT_EQ(write.Remote(host.address(kUpper), rkey).Post(a.get()), 0);
    ExpectSuccess(IBV_WC_RDMA_WRITE);
  }
  announced.reset();
}

// The device of a fabric is that of all its processes, as a NIC is: one process gets a part, and is
// told so when it wants more.
TEST_F(QueuePairCases, ShareOfAProcessEndsWithASentence) {
  constexpr size_t kShare = 16'384;
  ibv_device_attr device = {};
  ASSERT_EQ(ibv_query_device(host.context.get(), &device), 0);
  EXPECT_GE(device.max_qp, 1 << 20) << "rdma_rxe";
  ibv_qp_init_attr attr = Attributes(IBV_QPT_RC, cq.get(), cq.get());
  attr.cap.max_send_wr = attr.cap.max_recv_wr = 1;
  std::vector<Qp> queue_pairs;
  ::testing::internal::CaptureStderr();
  while (queue_pairs.size() <= kShare) {
    Qp next(ibv_create_qp(host.pd.get(), &attr));
    if (next == nullptr) break;
    queue_pairs.push_back(std::move(next));
  }
  EXPECT_EQ(errno, ENOMEM);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("a process may have 16384 of the queue pairs"), std::string::npos) << said;
  EXPECT_EQ(queue_pairs.size() + 2, kShare) << "and those of the fixture";
}

}  // namespace
}  // namespace uroce::verbs::testing
