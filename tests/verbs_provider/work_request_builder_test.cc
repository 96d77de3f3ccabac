// The ibv_wr_* functions: every operation of a reliable connection, and batches that contain an
// error.
#include <endian.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "tests/verbs_provider/reliable_pair_fixture.h"
#include "tests/verbs_provider/verbs_objects.h"

namespace uroce::verbs::testing {
namespace {

using WorkRequestBuilderTest = ReliablePairTest;

TEST_F(WorkRequestBuilderTest, PostsEveryOperation) {
  ibv_qp_ex* const qp = ibv_qp_to_qp_ex(a.get());
  ASSERT_NE(qp, nullptr);
  Word(kUpper + 8000) = 5;
  ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper + 4000, 100), 20), 0);
  ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper + 4100, 100), 21), 0);
  ASSERT_EQ(PostReceive(b.get(), host.Sge(0, 0), 22), 0);

  ibv_wr_start(qp);
  qp->wr_flags = IBV_SEND_SIGNALED;
  qp->wr_id = 1;
  ibv_wr_rdma_write(qp, host.mr->rkey, host.address(kUpper));
  ibv_wr_set_sge(qp, host.mr->lkey, host.address(0), 100);
  qp->wr_id = 2;
  ibv_wr_send(qp);
  uint8_t text[] = "inline";
  ibv_wr_set_inline_data(qp, text, sizeof text);
  qp->wr_id = 3;
  ibv_wr_send_imm(qp, htobe32(33));
  const ibv_sge pieces[] = {host.Sge(0, 10), host.Sge(50, 10)};
  ibv_wr_set_sge_list(qp, 2, pieces);
  qp->wr_id = 4;
  ibv_wr_rdma_write_imm(qp, host.mr->rkey, host.address(kUpper + 200), htobe32(44));
  ibv_data_buf buffers[] = {{.addr = text, .length = 3}, {.addr = text + 3, .length = 4}};
  ibv_wr_set_inline_data_list(qp, 2, buffers);
  qp->wr_id = 5;
  ibv_wr_rdma_read(qp, host.mr->rkey, host.address(kUpper));
  ibv_wr_set_sge(qp, host.mr->lkey, host.address(20'000), 100);
  qp->wr_id = 6;
  ibv_wr_atomic_fetch_add(qp, host.mr->rkey, host.address(kUpper + 8000), 2);
  ibv_wr_set_sge(qp, host.mr->lkey, host.address(21'000), 8);
  qp->wr_id = 7;
  ibv_wr_atomic_cmp_swp(qp, host.mr->rkey, host.address(kUpper + 8000), 7, 9);
  ibv_wr_set_sge(qp, host.mr->lkey, host.address(21'008), 8);
  qp->wr_id = 8;
  uint64_t number = 0x0123'4567'89ab'cdef;
  ibv_wr_atomic_write(qp, host.mr->rkey, host.address(kUpper + 8008), &number);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  std::memset(text, 0, sizeof text);
  number = 0;

  for (uint64_t id = 1; id <= 8; ++id) {
    const ibv_wc wc = WaitForCompletion(cq.get());
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, id);
  }
  EXPECT_TRUE(Arrived(0, kUpper, 100));
  EXPECT_STREQ(reinterpret_cast<char*>(host.data() + kUpper + 4000), "inline");
  EXPECT_TRUE(Arrived(50, kUpper + 4110, 10));
  EXPECT_STREQ(reinterpret_cast<char*>(host.data() + kUpper + 200), "inline");
  EXPECT_TRUE(Arrived(0, 20'000, 100));
  EXPECT_EQ(Word(21'000), 5u);
  EXPECT_EQ(Word(21'008), 7u);
  EXPECT_EQ(Word(kUpper + 8000), 9u);
  EXPECT_EQ(Word(kUpper + 8008), 0x0123'4567'89ab'cdefu);
}

// A setter may replace the number of an ATOMIC WRITE by other data, as for any request.
TEST_F(WorkRequestBuilderTest, AtomicWriteTakesASetter) {
  ibv_qp_ex* const qp = ibv_qp_to_qp_ex(a.get());
  const uint64_t number = 1;
  Word(0) = 2;
  ibv_wr_start(qp);
  qp->wr_flags = IBV_SEND_SIGNALED;
  qp->wr_id = 1;
  ibv_wr_atomic_write(qp, host.mr->rkey, host.address(kUpper), &number);
  ibv_wr_set_sge(qp, host.mr->lkey, host.address(0), 8);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  ExpectSuccess(IBV_WC_ATOMIC_WRITE);
  EXPECT_EQ(Word(kUpper), 2u);
}

TEST_F(WorkRequestBuilderTest, AMisalignedAtomicWriteEndsInError) {
  ibv_qp_ex* const qp = ibv_qp_to_qp_ex(a.get());
  const uint64_t number = 1;
  ibv_wr_start(qp);
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_atomic_write(qp, host.mr->rkey, host.address(kUpper + 4), &number);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(Word(kUpper), 0u);
}

// ibv_qp_ex has a member for flush from release 45 on. Before, libibverbs' own data follow there.
TEST_F(WorkRequestBuilderTest, FlushIsOfferedWhereTheLibraryHasIt) {
  constexpr uint64_t kWithFlush = 1 << 11;
  constexpr size_t kBytesWithFlush = 360;
  const ibv_qp_init_attr basic = RcAttributes(cq.get(), receive_cq.get());
  ibv_qp_init_attr_ex attr = ExtendedAttributes(host.pd.get(), basic, kWithFlush);
  errno = 0;
  const Qp qp(ibv_create_qp_ex(host.context.get(), &attr));
  EXPECT_EQ(qp != nullptr, sizeof(ibv_qp_ex) >= kBytesWithFlush);
  EXPECT_EQ(errno, qp != nullptr ? 0 : EOPNOTSUPP);
}

// The WRITE's data is longer than inline data may be, and the READ has no data to send.
TEST_F(WorkRequestBuilderTest, FlagDoesNotMakeDataInline) {
  constexpr uint32_t kBytes = 8'000;
  ibv_qp_ex* const qp = ibv_qp_to_qp_ex(a.get());
  ibv_wr_start(qp);
  qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  ibv_wr_rdma_write(qp, host.mr->rkey, host.address(kUpper));
  ibv_wr_set_sge(qp, host.mr->lkey, host.address(0), kBytes);
  ibv_wr_rdma_read(qp, host.mr->rkey, host.address(kUpper));
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(Arrived(0, kUpper, kBytes));
}

TEST_F(WorkRequestBuilderTest, BindsAndInvalidatesWindows) {
  const Mw mw(ibv_alloc_mw(host.pd.get(), IBV_MW_TYPE_2));
  ibv_qp_ex* const qp = ibv_qp_to_qp_ex(a.get());
  const uint32_t rkey = ibv_inc_rkey(mw->rkey);
  const ibv_mw_bind_info info = {.mr = host.mr.get(),
                                 .addr = host.address(kUpper),
                                 .length = 100,
                                 .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
  ibv_wr_start(qp);
  qp->wr_flags = IBV_SEND_SIGNALED;
  qp->wr_id = 1;
  ibv_wr_bind_mw(qp, mw.get(), rkey, &info);
  qp->wr_id = 2;
  ibv_wr_local_inv(qp, rkey);
  EXPECT_NE(mw->rkey, rkey) << "before it is posted";
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  EXPECT_EQ(mw->rkey, rkey);
  ExpectSuccess(IBV_WC_BIND_MW, 1);
  ExpectSuccess(IBV_WC_LOCAL_INV, 2);
}

TEST_F(WorkRequestBuilderTest, BindsNoWindowOfType1) {
  const Mw mw(ibv_alloc_mw(host.pd.get(), IBV_MW_TYPE_1));
  ibv_qp_ex* const qp = ibv_qp_to_qp_ex(a.get());
  const ibv_mw_bind_info info = {.mr = host.mr.get(),
                                 .addr = host.address(kUpper),
                                 .length = 100,
                                 .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
  ibv_wr_start(qp);
  ibv_wr_bind_mw(qp, mw.get(), ibv_inc_rkey(mw->rkey), &info);
  const uint32_t rkey = mw->rkey;
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);
  EXPECT_EQ(mw->rkey, rkey);
}

// Data becomes inline by ibv_wr_set_inline_data: programs leave the flag of ibv_post_send set.
TEST_F(WorkRequestBuilderTest, IgnoresTheInlineFlag) {
  ibv_qp_ex* const qp = ibv_qp_to_qp_ex(a.get());
  ibv_wr_start(qp);
  qp->wr_id = 1;
  qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  ibv_wr_rdma_write(qp, host.mr->rkey, host.address(kUpper));
  ibv_wr_set_sge(qp, host.mr->lkey, host.address(0), 4000);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  ExpectSuccess(IBV_WC_RDMA_WRITE);
  EXPECT_TRUE(Arrived(0, kUpper, 4000));
}

TEST_F(WorkRequestBuilderTest, ReportsTheFirstError) {
  ibv_qp_ex* const qp = ibv_qp_to_qp_ex(a.get());
  uint8_t text[8] = {};
  const auto add_too_long = [&](size_t length) {
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, text, length);
  };
  // A setter without an operation, on a builder that never had one.
  ibv_wr_start(qp);
  ibv_wr_set_sge(qp, host.mr->lkey, host.address(0), 8);
  ibv_wr_send(qp);
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);

  ibv_wr_start(qp);
  add_too_long(SIZE_MAX);
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);

  ibv_wr_start(qp);
  for (int count = 0; count < 16; ++count) ibv_wr_send(qp);
  add_too_long(SIZE_MAX);  // also one request too many
  EXPECT_EQ(ibv_wr_complete(qp), ENOMEM);
}

TEST_F(WorkRequestBuilderTest, PostsAllOrNothing) {
  ibv_qp_ex* const qp = ibv_qp_to_qp_ex(a.get());
  qp->wr_flags = IBV_SEND_SIGNALED;
  const auto add_write = [&](uint64_t id) {
    qp->wr_id = id;
    ibv_wr_rdma_write(qp, host.mr->rkey, host.address(kUpper));
    ibv_wr_set_sge(qp, host.mr->lkey, host.address(0), 8);
  };

  ibv_wr_start(qp);
  add_write(1);
  add_write(2);
  uint8_t long_text[2000] = {};
  ibv_wr_set_inline_data(qp, long_text, sizeof long_text);
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);

  ibv_wr_start(qp);
  add_write(3);
  ibv_wr_atomic_fetch_add(qp, host.mr->rkey, host.address(kUpper), 1);
  ibv_wr_set_sge(qp, host.mr->lkey, host.address(0), 4);  // not 8
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);

  ibv_wr_start(qp);
  for (uint64_t id = 100; id < 100 + 17; ++id) add_write(id);  // one too many
  EXPECT_EQ(ibv_wr_complete(qp), ENOMEM);

  ibv_wr_start(qp);
  add_write(4);
  ibv_wr_abort(qp);

  ibv_wr_start(qp);
  add_write(5);
  EXPECT_EQ(ibv_wr_complete(qp), 0);
  ExpectSuccess(IBV_WC_RDMA_WRITE, 5);
}

TEST_F(WorkRequestBuilderTest, UnknownOperationsAreRefusedAtCreation) {
  ibv_qp_init_attr_ex attr =
      ExtendedAttributes(host.pd.get(), RcAttributes(cq.get(), cq.get()), IBV_QP_EX_WITH_TSO);
  errno = 0;
  EXPECT_EQ(ibv_create_qp_ex(host.context.get(), &attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(WorkRequestBuilderTest, PlainQueuePairHasNoBuilder) {
  ibv_qp_init_attr attr = RcAttributes(cq.get(), cq.get());
  const Qp qp(ibv_create_qp(host.pd.get(), &attr));
  EXPECT_EQ(ibv_qp_to_qp_ex(qp.get()), nullptr);
}

}  // namespace
}  // namespace uroce::verbs::testing
