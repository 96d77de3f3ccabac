// Every operation of a reliable connection, over the loopback path of one process, posted with
// ibv_post_send. With the ibv_wr_* functions: work_request_builder_test.cc.
#include <endian.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <numeric>

#include "tests/verbs_provider/reliable_pair_fixture.h"
#include "tests/verbs_provider/verbs_objects.h"

namespace uroce::verbs::testing {
namespace {

class OperationsTest : public ReliablePairTest {
 protected:
  // Binds a window of type 2 to 100 bytes at kUpper, which `a` may then write.
  void Bind(ibv_mw* mw, uint32_t rkey) {
    SendRequest bind(IBV_WR_BIND_MW, {});
    bind.bind_mw.mw = mw;
    bind.bind_mw.rkey = rkey;
    bind.bind_mw.bind_info = {.mr = host.mr.get(),
                              .addr = host.address(kUpper),
                              .length = 100,
                              .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
    ASSERT_EQ(bind.Post(b.get()), 0);
    const ibv_wc wc = WaitForCompletion(cq.get());
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, IBV_WC_BIND_MW);
  }
  // A binding of a window of type 1 to the same bytes.
  ibv_mw_bind SignaledBind(unsigned int access) {
    return {.wr_id = 1,
            .send_flags = IBV_SEND_SIGNALED,
            .bind_info = {.mr = host.mr.get(),
                          .addr = host.address(kUpper),
                          .length = 100,
                          .mw_access_flags = access}};
  }
};

TEST_F(OperationsTest, SendArrives) {
  for (const uint32_t length : {0u, 1u, 1023u, 1024u, 1025u, 30'000u}) {
    ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 32'000), 9), 0);
    ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, length)).Post(a.get()), 0);
    ExpectSuccess(IBV_WC_SEND);
    const ibv_wc wc = WaitForCompletion(receive_cq.get());
    EXPECT_EQ(wc.opcode, IBV_WC_RECV);
    EXPECT_EQ(wc.wr_id, 9u);
    EXPECT_EQ(wc.byte_len, length);
    EXPECT_EQ(wc.qp_num, b->qp_num);
    EXPECT_EQ(wc.wc_flags, 0u);
    EXPECT_TRUE(Arrived(0, kUpper, length));
  }
}

TEST_F(OperationsTest, SendGathersAndScatters) {
  ibv_sge from[] = {host.Sge(5000, 700), host.Sge(0, 1), host.Sge(100, 2000)};
  ibv_sge to[] = {host.Sge(kUpper + 10, 3), host.Sge(kUpper + 100, 5000)};
  ibv_recv_wr receive = {.wr_id = 9, .next = nullptr, .sg_list = to, .num_sge = 2};
  ibv_recv_wr* bad_receive = nullptr;
  ASSERT_EQ(ibv_post_recv(b.get(), &receive, &bad_receive), 0);
  SendRequest send(IBV_WR_SEND, from[0]);
  send.sg_list = from;
  send.num_sge = 3;
  ASSERT_EQ(send.Post(a.get()), 0);
  ExpectSuccess(IBV_WC_SEND);
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).byte_len, 2701u);
  EXPECT_TRUE(Arrived(5000, kUpper + 10, 3));
  EXPECT_TRUE(Arrived(5003, kUpper + 100, 697));
  EXPECT_TRUE(Arrived(0, kUpper + 797, 1));
  EXPECT_TRUE(Arrived(100, kUpper + 798, 2000));
}

TEST_F(OperationsTest, InlineDataIsTakenAtOnceAndNeedsNoKey) {
  uint8_t message[64];
  std::iota(std::begin(message), std::end(message), uint8_t{77});
  ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 100), 9), 0);
  SendRequest send(IBV_WR_SEND,
                   {.addr = reinterpret_cast<uintptr_t>(message), .length = 64, .lkey = 0});
  send.send_flags |= IBV_SEND_INLINE;
  ASSERT_EQ(send.Post(a.get()), 0);
  std::memset(message, 0, sizeof message);
  ExpectSuccess(IBV_WC_SEND);
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).byte_len, 64u);
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(host.buffer[kUpper + i], 77 + i);
}

// IBA 11.4.2.1.
TEST_F(OperationsTest, ImmediateDataArrives) {
  ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 100), 9), 0);
  SendRequest send(IBV_WR_SEND_WITH_IMM, host.Sge(0, 10));
  send.imm_data = htobe32(0xcafe'0001);
  ASSERT_EQ(send.Post(a.get()), 0);
  ExpectSuccess(IBV_WC_SEND);
  ibv_wc wc = WaitForCompletion(receive_cq.get());
  EXPECT_EQ(wc.wc_flags, static_cast<unsigned int>(IBV_WC_WITH_IMM));
  EXPECT_EQ(be32toh(wc.imm_data), 0xcafe'0001u);

  ASSERT_EQ(PostReceive(b.get(), host.Sge(0, 0), 10), 0);
  SendRequest write(IBV_WR_RDMA_WRITE_WITH_IMM, host.Sge(0, 500), 2);
  write.imm_data = htobe32(0xcafe'0002);
  ASSERT_EQ(write.Remote(host.address(kUpper), host.mr->rkey).Post(a.get()), 0);
  ExpectSuccess(IBV_WC_RDMA_WRITE, 2);
  wc = WaitForCompletion(receive_cq.get());
  EXPECT_EQ(wc.wr_id, 10u);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(be32toh(wc.imm_data), 0xcafe'0002u);
  EXPECT_EQ(wc.byte_len, 500u);
  EXPECT_TRUE(Arrived(0, kUpper, 500));
}

TEST_F(OperationsTest, WriteAndReadMoveData) {
  SendRequest write(IBV_WR_RDMA_WRITE, host.Sge(0, 20'000));
  ASSERT_EQ(write.Remote(host.address(kUpper), host.mr->rkey).Post(a.get()), 0);
  ExpectSuccess(IBV_WC_RDMA_WRITE);
  EXPECT_TRUE(Arrived(0, kUpper, 20'000));

  std::memset(host.data(), 0, 20'000);
  SendRequest read(IBV_WR_RDMA_READ, host.Sge(0, 20'000), 2);
  ASSERT_EQ(read.Remote(host.address(kUpper), host.mr->rkey).Post(a.get()), 0);
  ExpectSuccess(IBV_WC_RDMA_READ, 2);
  EXPECT_TRUE(Arrived(0, kUpper, 20'000));
  EXPECT_EQ(host.buffer[0], 1);
}

TEST_F(OperationsTest, AtomicsAreInHostByteOrder) {
  Word(kUpper) = 0x0123'4567'89ab'cdef;
  SendRequest add(IBV_WR_ATOMIC_FETCH_AND_ADD, host.Sge(0, 8));
  add.wr.atomic.compare_add = 0x10;
  ASSERT_EQ(add.Remote(host.address(kUpper), host.mr->rkey).Post(a.get()), 0);
  ExpectSuccess(IBV_WC_FETCH_ADD);
  EXPECT_EQ(Word(0), 0x0123'4567'89ab'cdefu);
  EXPECT_EQ(Word(kUpper), 0x0123'4567'89ab'cdffu);

  SendRequest swap(IBV_WR_ATOMIC_CMP_AND_SWP, host.Sge(8, 8), 2);
  swap.wr.atomic.compare_add = 0x0123'4567'89ab'cdff;
  swap.wr.atomic.swap = 42;
  ASSERT_EQ(swap.Remote(host.address(kUpper), host.mr->rkey).Post(a.get()), 0);
  ExpectSuccess(IBV_WC_COMP_SWAP, 2);
  EXPECT_EQ(Word(8), 0x0123'4567'89ab'cdffu);
  EXPECT_EQ(Word(kUpper), 42u);
}

// Posts by ibv_post_send, from memory and inline.
TEST_F(OperationsTest, AtomicWriteWritesANumber) {
  Word(0) = 0x0123'4567'89ab'cdef;
  SendRequest write(IBV_WR_ATOMIC_WRITE, host.Sge(0, 8));
  ASSERT_EQ(write.Remote(host.address(kUpper), host.mr->rkey).Post(a.get()), 0);
  ExpectSuccess(IBV_WC_ATOMIC_WRITE);
  EXPECT_EQ(Word(kUpper), 0x0123'4567'89ab'cdefu);

  SendRequest inlined(IBV_WR_ATOMIC_WRITE, host.Sge(0, 8), 2);
  inlined.send_flags |= IBV_SEND_INLINE;
  ASSERT_EQ(inlined.Remote(host.address(kUpper + 8), host.mr->rkey).Post(a.get()), 0);
  ExpectSuccess(IBV_WC_ATOMIC_WRITE, 2);
  EXPECT_EQ(Word(kUpper + 8), 0x0123'4567'89ab'cdefu);
}

TEST_F(OperationsTest, UnsignaledRequestsCompleteSilently) {
  SendRequest quiet(IBV_WR_RDMA_WRITE, host.Sge(0, 8), 1);
  quiet.send_flags = 0;
  SendRequest loud(IBV_WR_RDMA_WRITE, host.Sge(0, 8), 2);
  quiet.Remote(host.address(kUpper), host.mr->rkey).next = &loud;
  loud.Remote(host.address(kUpper), host.mr->rkey);
  ASSERT_EQ(quiet.Post(a.get()), 0);
  ExpectSuccess(IBV_WC_RDMA_WRITE, 2);
}

TEST_F(OperationsTest, IovaNamesTheBytes) {
  constexpr uint64_t kIova = 0x7000'0000'0000;
  const auto offset = host.address(kUpper) & 4095;
  const Mr mr(
      ibv_reg_mr_iova(host.pd.get(), host.data() + kUpper, 4096, kIova + offset, Host::kAllAccess));
  ASSERT_NE(mr, nullptr);
  SendRequest write(IBV_WR_RDMA_WRITE, host.Sge(0, 100));
  ASSERT_EQ(write.Remote(kIova + offset + 50, mr->rkey).Post(a.get()), 0);
  ExpectSuccess(IBV_WC_RDMA_WRITE);
  EXPECT_TRUE(Arrived(0, kUpper + 50, 100));
}

TEST_F(OperationsTest, Type1WindowOpensItsRangeOnly) {
  const Mw mw(ibv_alloc_mw(host.pd.get(), IBV_MW_TYPE_1));
  const uint32_t unbound_rkey = mw->rkey;
  ibv_mw_bind bind = SignaledBind(IBV_ACCESS_REMOTE_WRITE);
  ASSERT_EQ(ibv_bind_mw(a.get(), mw.get(), &bind), 0);
  ExpectSuccess(IBV_WC_BIND_MW);
  EXPECT_NE(mw->rkey, unbound_rkey);
  EXPECT_EQ(ibv_dereg_mr(host.mr.get()), EBUSY);

  SendRequest inside(IBV_WR_RDMA_WRITE, host.Sge(0, 100), 2);
  ASSERT_EQ(inside.Remote(host.address(kUpper), mw->rkey).Post(a.get()), 0);
  ExpectSuccess(IBV_WC_RDMA_WRITE, 2);
  EXPECT_TRUE(Arrived(0, kUpper, 100));

  SendRequest outside(IBV_WR_RDMA_WRITE, host.Sge(0, 101), 3);
  ASSERT_EQ(outside.Remote(host.address(kUpper), mw->rkey).Post(a.get()), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(OperationsTest, TypeOfTheWindowIsChecked) {
  const Mw first(ibv_alloc_mw(host.pd.get(), IBV_MW_TYPE_1));
  const Mw second(ibv_alloc_mw(host.pd.get(), IBV_MW_TYPE_2));
  ibv_mw_bind bind = {};
  bind.bind_info = {.mr = host.mr.get(),
                    .addr = host.address(kUpper),
                    .length = 100,
                    .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
  EXPECT_EQ(ibv_bind_mw(a.get(), second.get(), &bind), EINVAL);
  // libibverbs refused it; a program may also call the provider's function directly.
  EXPECT_EQ(host.context->ops.bind_mw(a.get(), second.get(), &bind), EINVAL);

  SendRequest wrong_type(IBV_WR_BIND_MW, {});
  wrong_type.bind_mw.mw = first.get();
  EXPECT_EQ(wrong_type.Post(a.get()), EINVAL);
}

TEST_F(OperationsTest, RefusedBindingLeavesTheKey) {
  const Mw mw(ibv_alloc_mw(host.pd.get(), IBV_MW_TYPE_1));
  const uint32_t rkey = mw->rkey;
  ibv_mw_bind bind = {};
  bind.bind_info = {.mr = host.mr.get(),
                    .addr = host.address(kUpper),
                    .length = 100,
                    .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
  const Qp unconnected = Create();
  EXPECT_EQ(ibv_bind_mw(unconnected.get(), mw.get(), &bind), EINVAL);
  EXPECT_EQ(mw->rkey, rkey);
}

TEST_F(OperationsTest, RangeWithoutARegionIsNotBound) {
  const Mw mw(ibv_alloc_mw(host.pd.get(), IBV_MW_TYPE_2));
  for (const ibv_mw_bind_info& info : {ibv_mw_bind_info{nullptr, host.address(kUpper), 0, 0},
                                       ibv_mw_bind_info{nullptr, 0, 100, 0}}) {
    SendRequest bind(IBV_WR_BIND_MW, {});
    bind.bind_mw.mw = mw.get();
    bind.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
    bind.bind_mw.bind_info = info;
    EXPECT_EQ(bind.Post(b.get()), EINVAL);
  }
}

// Programs use the region's flags for its window. Those that windows do not have are accepted and
// ignored.
TEST_F(OperationsTest, FlagsThatWindowsDoNotHaveAreIgnored) {
  const Mw mw(ibv_alloc_mw(host.pd.get(), IBV_MW_TYPE_1));
  ibv_mw_bind bind = SignaledBind(Host::kAllAccess | IBV_ACCESS_RELAXED_ORDERING);
  ASSERT_EQ(ibv_bind_mw(a.get(), mw.get(), &bind), 0);
  ExpectSuccess(IBV_WC_BIND_MW);
}

// Regions of plain memory cannot be registered for persistence either.
TEST_F(OperationsTest, WindowIsNotFlushedForPersistence) {
  constexpr unsigned int kFlushGlobal = 1u << 8;  // IBV_ACCESS_FLUSH_GLOBAL
  constexpr unsigned int kFlushPersistent = 1u << 9;
  const Mw mw(ibv_alloc_mw(host.pd.get(), IBV_MW_TYPE_1));
  ibv_mw_bind bind = SignaledBind(kFlushGlobal | kFlushPersistent);
  EXPECT_EQ(ibv_bind_mw(a.get(), mw.get(), &bind), EINVAL);
  bind.bind_info.mw_access_flags = kFlushGlobal;
  ASSERT_EQ(ibv_bind_mw(a.get(), mw.get(), &bind), 0);
  ExpectSuccess(IBV_WC_BIND_MW);
}

// A binding with a window or a region of another protection domain can be posted, and fails when it
// is carried out.
TEST_F(OperationsTest, BindingAcrossProtectionDomainsCompletesInError) {
  const Pd other(ibv_alloc_pd(host.context.get()));
  const Mw foreign_window(ibv_alloc_mw(other.get(), IBV_MW_TYPE_2));
  const Mw own_window(ibv_alloc_mw(host.pd.get(), IBV_MW_TYPE_2));
  const Mr foreign_region(ibv_reg_mr(other.get(), host.data(), 4096, Host::kAllAccess));
  struct Case {
    ibv_mw* window;
    ibv_mr* region;
  };
  for (const Case& one :
       {Case{foreign_window.get(), host.mr.get()}, Case{own_window.get(), foreign_region.get()},
        Case{foreign_window.get(), foreign_region.get()}}) {
    const Qp qp = Create();
    const Qp peer = Create();
    ConnectLoopback(qp.get(), peer.get());
    SendRequest bind(IBV_WR_BIND_MW, {}, 5);
    bind.bind_mw.mw = one.window;
    bind.bind_mw.rkey = ibv_inc_rkey(one.window->rkey);
    bind.bind_mw.bind_info = {.mr = one.region,
                              .addr = host.address(0),
                              .length = 100,
                              .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
    ASSERT_EQ(bind.Post(qp.get()), 0);
    const ibv_wc wc = WaitForCompletion(cq.get());
    EXPECT_EQ(wc.wr_id, 5u);
    EXPECT_EQ(wc.status, IBV_WC_MW_BIND_ERR);
  }
}

// A program chooses only the lowest byte of a type 2 window's key, and may leave it unchanged.
TEST_F(OperationsTest, OnlyTheLowestByteOfAType2KeyIsUsed) {
  for (const uint32_t wanted : {0u, 0x1234'5600u, 0xffff'ffffu}) {
    for (const bool same_byte : {false, true}) {
      const Mw mw(ibv_alloc_mw(host.pd.get(), IBV_MW_TYPE_2));
      const uint32_t byte = (same_byte ? mw->rkey : wanted) & 0xff;
      Bind(mw.get(), (wanted & ~0xffu) | byte);
      SendRequest write(IBV_WR_RDMA_WRITE, host.Sge(0, 100));
      EXPECT_EQ(mw->rkey & 0xff, byte);  // the key to hand out
      write.Remote(host.address(kUpper), mw->rkey);
      ASSERT_EQ(write.Post(a.get()), 0);
      ExpectSuccess(IBV_WC_RDMA_WRITE);
    }
  }
}

// The program that waits for the immediate data learns that they will not come.
TEST_F(OperationsTest, RefusedWriteWithImmediateEndsItsReceive) {
  ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 100), 9), 0);
  ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 100), 10), 0);
  SendRequest write(IBV_WR_RDMA_WRITE_WITH_IMM, host.Sge(0, 100));
  write.imm_data = htobe32(1);
  ASSERT_EQ(write.Remote(host.address(kUpper), host.mr->rkey ^ 0x100).Post(a.get()), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_REM_ACCESS_ERR);
  ibv_wc wc = WaitForCompletion(receive_cq.get());
  EXPECT_EQ(wc.wr_id, 9u);
  EXPECT_EQ(wc.status, IBV_WC_LOC_ACCESS_ERR);
  wc = WaitForCompletion(receive_cq.get());
  EXPECT_EQ(wc.wr_id, 10u);
  EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
}

// IBA 9.4.1.1.
TEST_F(OperationsTest, Type2WindowIsInvalidatedByEitherSide) {
  const Mw mw(ibv_alloc_mw(host.pd.get(), IBV_MW_TYPE_2));
  uint32_t rkey = mw->rkey;
  for (const bool by_peer : {false, true}) {
    rkey = ibv_inc_rkey(rkey);
    Bind(mw.get(), rkey);
    EXPECT_EQ(mw->rkey, rkey);
    SendRequest write(IBV_WR_RDMA_WRITE, host.Sge(0, 100));
    ASSERT_EQ(write.Remote(host.address(kUpper), rkey).Post(a.get()), 0);
    ExpectSuccess(IBV_WC_RDMA_WRITE);

    if (by_peer) {
      ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 100), 9), 0);
      SendRequest send(IBV_WR_SEND_WITH_INV, host.Sge(0, 8));
      send.invalidate_rkey = rkey;
      ASSERT_EQ(send.Post(a.get()), 0);
      ExpectSuccess(IBV_WC_SEND);
      const ibv_wc wc = WaitForCompletion(receive_cq.get());
      EXPECT_EQ(wc.wc_flags, static_cast<unsigned int>(IBV_WC_WITH_INV));
      EXPECT_EQ(wc.invalidated_rkey, rkey);
    } else {
      SendRequest invalidate(IBV_WR_LOCAL_INV, {});
      invalidate.invalidate_rkey = rkey;
      ASSERT_EQ(invalidate.Post(b.get()), 0);
      EXPECT_EQ(WaitForCompletion(cq.get()).opcode, IBV_WC_LOCAL_INV);
    }
  }
  SendRequest late(IBV_WR_RDMA_WRITE, host.Sge(0, 100));
  ASSERT_EQ(late.Remote(host.address(kUpper), rkey).Post(a.get()), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_REM_ACCESS_ERR);
}

}  // namespace
}  // namespace uroce::verbs::testing
