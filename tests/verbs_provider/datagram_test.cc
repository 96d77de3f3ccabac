// Datagrams: address handles, the sender as its receiver sees it, Q_Keys, and multicast groups. All
// over the loopback path of one process.
#include <endian.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "tests/verbs_provider/loopback.h"

namespace uroce::verbs::testing {
namespace {

constexpr size_t kGrhBytes = 40;
constexpr uint32_t kQkey = 0x1111'1111;
constexpr uint32_t kMulticastQpn = 0xff'ffff;
constexpr uint8_t kLinkLocalIndex = 0;  // IPv6
constexpr uint8_t kIpv4Index = 1;

class DatagramTest : public LoopbackTest {
 protected:
  void SetUp() override {
    a = Create();
    b = Create();
    ASSERT_NE(a, nullptr);
    ASSERT_NE(b, nullptr);
    std::iota(host.buffer.begin(), host.buffer.begin() + kUpper, uint8_t{1});
  }

  Qp Create(const ConnectOptions& options = {}) {
    const auto basic = Attributes(IBV_QPT_UD, cq.get(), receive_cq.get());
    ibv_qp_init_attr_ex attr = ExtendedAttributes(
        host.pd.get(), basic, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM);
    Qp qp(ibv_create_qp_ex(host.context.get(), &attr));
    EXPECT_NE(qp, nullptr);
    if (qp != nullptr) BringUp(qp.get(), options);
    return qp;
  }

  Ah AddressHandle(const ibv_gid& gid, uint8_t gid_index) {
    ibv_ah_attr attr = AddressOf(gid, gid_index);
    Ah ah(ibv_create_ah(host.pd.get(), &attr));
    EXPECT_NE(ah, nullptr);
    return ah;
  }
  Ah OwnAddress(uint8_t gid_index) { return AddressHandle(OwnGid(gid_index), gid_index); }

  const uint8_t* received() { return host.data() + kUpper; }
  uint32_t QkeyViolations() {
    ibv_port_attr port = {};
    EXPECT_EQ(ibv_query_port(host.context.get(), 1, &port), 0);
    return port.qkey_viol_cntr;
  }
  void ExpectSent(uint64_t id = 1) {
    const ibv_wc wc = WaitForCompletion(cq.get());
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, IBV_WC_SEND);
    EXPECT_EQ(wc.wr_id, id);
  }

  Qp a, b;
};

TEST_F(DatagramTest, ArrivesBehindTheIpv4HeaderItCameWith) {
  const Ah ah = OwnAddress(kIpv4Index);
  std::fill_n(host.data() + kUpper, 20, uint8_t{0xee});
  ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 200), 7), 0);
  SendRequest send(IBV_WR_SEND, host.Sge(0, 100));
  ASSERT_EQ(send.To(ah.get(), b->qp_num, kQkey).Post(a.get()), 0);
  ExpectSent();

  const ibv_wc wc = WaitForCompletion(receive_cq.get());
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV);
  EXPECT_EQ(wc.wr_id, 7u);
  EXPECT_EQ(wc.byte_len, 100 + kGrhBytes);
  EXPECT_EQ(wc.qp_num, b->qp_num);
  EXPECT_EQ(wc.src_qp, a->qp_num);
  EXPECT_EQ(wc.wc_flags, static_cast<unsigned int>(IBV_WC_GRH));
  EXPECT_EQ(wc.pkey_index, 0);
  EXPECT_EQ(wc.slid, 0);
  EXPECT_EQ(wc.sl, 2);  // IPv4: UCX asks for the version here
  EXPECT_EQ(wc.dlid_path_bits, 0);
  EXPECT_EQ(wc.vendor_err, 0u);

  // IBA A17.4.5.2: the first 20 bytes are undefined (ours stay unchanged).
  EXPECT_EQ(received()[0], 0xee);
  const uint8_t* const ip = received() + 20;
  EXPECT_EQ(ip[0], 0x45);
  EXPECT_EQ(ip[9], 17);
  EXPECT_EQ(std::memcmp(ip + 12, OwnGid(kIpv4Index).raw + 12, 4), 0);
  EXPECT_EQ(std::memcmp(ip + 16, OwnGid(kIpv4Index).raw + 12, 4), 0);
  EXPECT_EQ(std::memcmp(received() + kGrhBytes, host.data(), 100), 0);
}

// Without one, a handle has that of the route.
TEST_F(DatagramTest, HopLimitIsThatOfTheAddressHandle) {
  for (const auto& [asked, sent] : {std::pair{1, 1}, {7, 7}, {0, 64}}) {
    ibv_ah_attr attr = AddressOf(OwnGid(kLinkLocalIndex), kLinkLocalIndex);
    attr.grh.hop_limit = static_cast<uint8_t>(asked);
    const Ah ah(ibv_create_ah(host.pd.get(), &attr));
    ASSERT_NE(ah, nullptr);
    ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 200), 7), 0);
    ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 3)).To(ah.get(), b->qp_num, kQkey).Post(a.get()),
              0);
    WaitForCompletion(receive_cq.get());
    ibv_grh grh;
    std::memcpy(&grh, received(), sizeof grh);
    EXPECT_EQ(grh.hop_limit, sent);
  }
}

TEST_F(DatagramTest, ArrivesBehindTheIpv6HeaderItCameWith) {
  const Ah ah = OwnAddress(kLinkLocalIndex);
  ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 200), 7), 0);
  SendRequest send(IBV_WR_SEND_WITH_IMM, host.Sge(0, 3));
  send.imm_data = htobe32(0x0102'0304);
  ASSERT_EQ(send.To(ah.get(), b->qp_num, kQkey).Post(a.get()), 0);
  const ibv_wc wc = WaitForCompletion(receive_cq.get());
  EXPECT_EQ(wc.byte_len, 3 + kGrhBytes);
  EXPECT_EQ(wc.sl, 1);  // IPv6
  EXPECT_EQ(wc.wc_flags, static_cast<unsigned int>(IBV_WC_GRH | IBV_WC_WITH_IMM));
  EXPECT_EQ(wc.imm_data, htobe32(0x0102'0304));

  ibv_grh grh;
  std::memcpy(&grh, received(), sizeof grh);
  EXPECT_EQ(be32toh(grh.version_tclass_flow) >> 28, 6u);
  EXPECT_EQ(grh.next_hdr, 17);  // UDP over IPv6
  EXPECT_EQ(grh.hop_limit, 64);
  EXPECT_EQ(std::memcmp(grh.sgid.raw, OwnGid(kLinkLocalIndex).raw, 16), 0);
  EXPECT_EQ(std::memcmp(grh.dgid.raw, OwnGid(kLinkLocalIndex).raw, 16), 0);
  EXPECT_EQ(std::memcmp(received() + kGrhBytes, host.data(), 3), 0);
}

// ibv_create_ah_from_wc reads the header, finds our GID in the table and turns the address around.
TEST_F(DatagramTest, AnswerGoesToTheAddressThatACompletionNames) {
  for (const uint8_t index : {kLinkLocalIndex, kIpv4Index}) {
    const Ah ah = OwnAddress(index);
    ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 200), 7), 0);
    SendRequest question(IBV_WR_SEND, host.Sge(0, 8));
    ASSERT_EQ(question.To(ah.get(), b->qp_num, kQkey).Post(a.get()), 0);
    ExpectSent();
    ibv_wc wc = WaitForCompletion(receive_cq.get());
    ibv_grh grh;
    std::memcpy(&grh, received(), sizeof grh);

    ibv_ah_attr attr = {};
    ASSERT_EQ(ibv_init_ah_from_wc(host.context.get(), 1, &wc, &grh, &attr), 0);
    EXPECT_EQ(attr.is_global, 1);
    EXPECT_EQ(attr.port_num, 1);
    EXPECT_EQ(attr.grh.sgid_index, index);
    EXPECT_EQ(std::memcmp(attr.grh.dgid.raw, OwnGid(index).raw, 16), 0);
    const Ah back(ibv_create_ah_from_wc(host.pd.get(), &wc, &grh, 1));
    ASSERT_NE(back, nullptr);
    ASSERT_EQ(PostReceive(a.get(), host.Sge(kUpper, 200), 8), 0);
    SendRequest answer(IBV_WR_SEND, host.Sge(16, 8), 2);
    ASSERT_EQ(answer.To(back.get(), wc.src_qp, kQkey).Post(b.get()), 0);
    ExpectSent(2);
    wc = WaitForCompletion(receive_cq.get());
    EXPECT_EQ(wc.qp_num, a->qp_num);
    EXPECT_EQ(wc.src_qp, b->qp_num);
  }
}

TEST_F(DatagramTest, ExtendedQueueReadsTheSameOfADatagram) {
  ibv_cq_init_attr_ex cq_attr = {};
  cq_attr.cqe = 16;
  cq_attr.wc_flags = IBV_WC_STANDARD_FLAGS;
  ibv_cq_ex* const extended = ibv_create_cq_ex(host.context.get(), &cq_attr);
  ASSERT_NE(extended, nullptr);
  const Cq owner(ibv_cq_ex_to_cq(extended));
  ibv_qp_init_attr attr = Attributes(IBV_QPT_UD, cq.get(), owner.get());
  const Qp qp(ibv_create_qp(host.pd.get(), &attr));
  BringUp(qp.get());

  const Ah ah = OwnAddress(kIpv4Index);
  ASSERT_EQ(PostReceive(qp.get(), host.Sge(kUpper, 200), 7), 0);
  SendRequest send(IBV_WR_SEND_WITH_IMM, host.Sge(0, 8));
  send.imm_data = htobe32(5);
  ASSERT_EQ(send.To(ah.get(), qp->qp_num, kQkey).Post(a.get()), 0);
  ExpectSent();
  ibv_poll_cq_attr poll_attr = {};
  ASSERT_EQ(ibv_start_poll(extended, &poll_attr), 0);
  EXPECT_EQ(extended->wr_id, 7u);
  EXPECT_EQ(extended->status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_wc_read_opcode(extended), IBV_WC_RECV);
  EXPECT_EQ(ibv_wc_read_byte_len(extended), 8 + kGrhBytes);
  EXPECT_EQ(ibv_wc_read_imm_data(extended), htobe32(5));
  EXPECT_EQ(ibv_wc_read_wc_flags(extended),
            static_cast<unsigned int>(IBV_WC_GRH | IBV_WC_WITH_IMM));
  EXPECT_EQ(ibv_wc_read_qp_num(extended), qp->qp_num);
  EXPECT_EQ(ibv_wc_read_src_qp(extended), a->qp_num);
  EXPECT_EQ(ibv_wc_read_slid(extended), 0u);
  EXPECT_EQ(ibv_wc_read_sl(extended), 2);
  EXPECT_EQ(ibv_wc_read_dlid_path_bits(extended), 0);
  EXPECT_EQ(ibv_wc_read_vendor_err(extended), 0u);
  ibv_end_poll(extended);
}

TEST_F(DatagramTest, BuilderAddressesEachDatagram) {
  const Ah ah = OwnAddress(kIpv4Index);
  const Qp c = Create();
  ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 200), 1), 0);
  ASSERT_EQ(PostReceive(c.get(), host.Sge(kUpper + 200, 200), 2), 0);
  ibv_qp_ex* const qp = ibv_qp_to_qp_ex(a.get());
  ASSERT_NE(qp, nullptr);
  ibv_wr_start(qp);
  qp->wr_flags = IBV_SEND_SIGNALED;
  qp->wr_id = 1;
  ibv_wr_send(qp);
  ibv_wr_set_ud_addr(qp, ah.get(), b->qp_num, kQkey);
  ibv_wr_set_sge(qp, host.mr->lkey, host.address(0), 10);
  qp->wr_id = 2;
  ibv_wr_send_imm(qp, htobe32(9));
  char text[] = "inline";
  ibv_wr_set_inline_data(qp, text, sizeof text);
  ibv_wr_set_ud_addr(qp, ah.get(), c->qp_num, kQkey);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  ExpectSent(1);
  ExpectSent(2);
  ibv_wc wc = WaitForCompletion(receive_cq.get());
  EXPECT_EQ(wc.qp_num, b->qp_num);
  EXPECT_EQ(wc.byte_len, kGrhBytes + 10);
  wc = WaitForCompletion(receive_cq.get());
  EXPECT_EQ(wc.qp_num, c->qp_num);
  EXPECT_EQ(wc.imm_data, htobe32(9));
  EXPECT_STREQ(reinterpret_cast<const char*>(received() + 200 + kGrhBytes), "inline");

  ibv_wr_start(qp);
  ibv_wr_send(qp);  // without a destination
  ibv_wr_set_sge(qp, host.mr->lkey, host.address(0), 10);
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);
}

TEST_F(DatagramTest, BuilderHasTheOperationsOfTheServiceOnly) {
  const auto refused = [&](ibv_qp_type type, uint64_t operation) {
    const auto basic = Attributes(type, cq.get(), cq.get());
    ibv_qp_init_attr_ex attr = ExtendedAttributes(host.pd.get(), basic, operation);
    errno = 0;
    const Qp qp(ibv_create_qp_ex(host.context.get(), &attr));
    return qp == nullptr ? errno : 0;
  };
  EXPECT_EQ(refused(IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE), EOPNOTSUPP);
  EXPECT_EQ(refused(IBV_QPT_UD, IBV_QP_EX_WITH_LOCAL_INV), EOPNOTSUPP);
  EXPECT_EQ(refused(IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_READ), EOPNOTSUPP);
  EXPECT_EQ(refused(IBV_QPT_UC, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD), EOPNOTSUPP);
  EXPECT_EQ(refused(IBV_QPT_UC, IBV_QP_EX_WITH_SEND_WITH_INV), EOPNOTSUPP);
  EXPECT_EQ(refused(IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM), 0);
}

// IBA 9.6.1.4.1.
TEST_F(DatagramTest, WrongQkeyIsCountedAndNotReceived) {
  const Ah ah = OwnAddress(kIpv4Index);
  const uint32_t before = QkeyViolations();
  ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 200), 1), 0);
  SendRequest wrong(IBV_WR_SEND, host.Sge(0, 8), 1);
  ASSERT_EQ(wrong.To(ah.get(), b->qp_num, kQkey + 1).Post(a.get()), 0);
  ExpectSent(1);  // unreliable, so the send still succeeds
  ExpectNothingReceived();
  EXPECT_EQ(QkeyViolations(), before + 1);
  SendRequest right(IBV_WR_SEND, host.Sge(0, 8), 2);
  ASSERT_EQ(right.To(ah.get(), b->qp_num, kQkey).Post(a.get()), 0);
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).wr_id, 1u);
  EXPECT_EQ(QkeyViolations(), before + 1);
}

// IBA 10.2.5: if the high bit of the request's Q_Key is set, the queue pair's own Q_Key is sent.
TEST_F(DatagramTest, HighBitOfTheQkeyStandsForTheSendersOwn) {
  const Ah ah = OwnAddress(kIpv4Index);
  ConnectOptions privileged;
  privileged.qkey = 0x8000'1234;
  const Qp c = Create(privileged);
  const Qp d = Create(privileged);
  ASSERT_EQ(PostReceive(d.get(), host.Sge(kUpper, 200), 1), 0);
  SendRequest from_outside(IBV_WR_SEND, host.Sge(0, 8), 1);
  ASSERT_EQ(from_outside.To(ah.get(), d->qp_num, 0x8000'1234).Post(a.get()), 0);
  ExpectSent(1);
  ExpectNothingReceived();
  SendRequest between_them(IBV_WR_SEND, host.Sge(0, 8), 2);
  ASSERT_EQ(between_them.To(ah.get(), d->qp_num, 0xffff'ffff).Post(c.get()), 0);
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).src_qp, c->qp_num);
}

TEST_F(DatagramTest, RequestWithoutAnAddressIsInvalid) {
  SendRequest request(IBV_WR_SEND, host.Sge(0, 8));
  EXPECT_EQ(request.To(nullptr, b->qp_num, kQkey).Post(a.get()), EINVAL);
}

// The members of `wr.rdma` lie where those of `wr.ud` do: the address of an RDMA WRITE is no
// handle.
TEST_F(DatagramTest, OperationOfAnotherServiceCompletesInError) {
  for (const ibv_wr_opcode opcode :
       {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_LOCAL_INV,
        IBV_WR_SEND_WITH_INV}) {
    const Qp sender = Create({});
    SendRequest request(opcode, host.Sge(0, 8), 3);
    ASSERT_EQ(request.Remote(host.address(kUpper) + 1, 5).Post(sender.get()), 0);
    const ibv_wc wc = WaitForCompletion(cq.get());
    EXPECT_EQ(wc.wr_id, 3u);
    EXPECT_EQ(wc.status, IBV_WC_LOC_QP_OP_ERR);
    EXPECT_EQ(Query(sender.get()).qp_state, IBV_QPS_SQE);
  }
}

// IBA C10-10.
TEST_F(DatagramTest, HandleOfAnotherProtectionDomainCompletesInError) {
  const Pd other_pd(ibv_alloc_pd(host.context.get()));
  ibv_ah_attr attr = AddressOf(OwnGid(kIpv4Index), kIpv4Index);
  const Ah foreign(ibv_create_ah(other_pd.get(), &attr));
  SendRequest request(IBV_WR_SEND, host.Sge(0, 8), 3);
  ASSERT_EQ(request.To(foreign.get(), b->qp_num, kQkey).Post(a.get()), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_LOC_QP_OP_ERR);
}

TEST_F(DatagramTest, TwentyFourBitsOfTheQueuePairNumberCount) {
  const Ah ah = OwnAddress(kIpv4Index);
  ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 200), 1), 0);
  SendRequest request(IBV_WR_SEND, host.Sge(0, 8), 1);
  ASSERT_EQ(request.To(ah.get(), b->qp_num | 0xde00'0000, kQkey).Post(a.get()), 0);
  ExpectSent(1);
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).qp_num, b->qp_num);
}

TEST_F(DatagramTest, LongestDatagramFillsAPacket) {
  const Ah ah = OwnAddress(kIpv4Index);
  ibv_port_attr port = {};
  ASSERT_EQ(ibv_query_port(host.context.get(), 1, &port), 0);
  const uint32_t mtu = 128u << port.active_mtu;
  ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, mtu + kGrhBytes), 1), 0);
  SendRequest longest(IBV_WR_SEND, host.Sge(0, mtu), 1);
  ASSERT_EQ(longest.To(ah.get(), b->qp_num, kQkey).Post(a.get()), 0);
  ExpectSent(1);
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).byte_len, mtu + kGrhBytes);

  // One byte more is a local error; the send queue stops, the receive queue lives on (SQE).
  SendRequest too_long(IBV_WR_SEND, host.Sge(0, mtu + 1), 2);
  ASSERT_EQ(too_long.To(ah.get(), b->qp_num, kQkey).Post(a.get()), 0);
  const ibv_wc wc = WaitForCompletion(cq.get());
  EXPECT_EQ(wc.wr_id, 2u);
  EXPECT_EQ(wc.status, IBV_WC_LOC_LEN_ERR);
  EXPECT_NE(wc.vendor_err, 0u);
  EXPECT_EQ(Query(a.get()).qp_state, IBV_QPS_SQE);
  ASSERT_EQ(Modify(a.get(), IBV_QPS_RTS), 0);
  ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, mtu + kGrhBytes), 3), 0);
  ASSERT_EQ(longest.Post(a.get()), 0);
  ExpectSent(1);
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).wr_id, 3u);
}

TEST_F(DatagramTest, DatagramArrivesAfterItsHandleIsDestroyed) {
  Ah ah = OwnAddress(kIpv4Index);
  ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 200), 1), 0);
  SendRequest send(IBV_WR_SEND, host.Sge(0, 8));
  ASSERT_EQ(send.To(ah.get(), b->qp_num, kQkey).Post(a.get()), 0);
  ExpectSent();
  ah.reset();
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).wr_id, 1u);
}

ibv_gid GroupOf(std::array<uint8_t, 16> bytes) {
  ibv_gid gid = {};
  std::copy(bytes.begin(), bytes.end(), gid.raw);
  return gid;
}

const ibv_gid kIpv4Group = GroupOf({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3});
const ibv_gid kIpv6Group = GroupOf({0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});

// IBA 10.5.2.
TEST_F(DatagramTest, GroupReachesEveryMemberOnce) {
  struct Case {
    ibv_gid group;
    uint8_t gid_index;
  };
  for (const auto& [group, index] : {Case{kIpv4Group, kIpv4Index}, {kIpv6Group, kLinkLocalIndex}}) {
    const Ah ah = AddressHandle(group, index);
    ASSERT_EQ(ibv_attach_mcast(a.get(), &group, 0), 0);
    ASSERT_EQ(ibv_attach_mcast(b.get(), &group, 0), 0);
    ASSERT_EQ(ibv_attach_mcast(b.get(), &group, 0), 0);  // twice is once
    const Qp unrelated = Create();
    for (ibv_qp* qp : {a.get(), b.get(), unrelated.get()}) {
      for (uint64_t id = 0; id < 2; ++id) {
        ASSERT_EQ(PostReceive(qp, host.Sge(kUpper + 200 * id, 200), qp->qp_num), 0);
      }
    }
    SendRequest send(IBV_WR_SEND, host.Sge(0, 50));
    ASSERT_EQ(send.To(ah.get(), kMulticastQpn, kQkey).Post(a.get()), 0);
    ExpectSent();
    std::array<uint64_t, 2> receivers;
    for (uint64_t& receiver : receivers) {
      const ibv_wc wc = WaitForCompletion(receive_cq.get());
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      EXPECT_EQ(wc.byte_len, 50 + kGrhBytes);
      EXPECT_EQ(wc.src_qp, a->qp_num);
      EXPECT_EQ(wc.qp_num, wc.wr_id);
      receiver = wc.wr_id;
    }
    std::sort(receivers.begin(), receivers.end());
    std::array<uint64_t, 2> members = {a->qp_num, b->qp_num};
    std::sort(members.begin(), members.end());
    EXPECT_EQ(receivers, members);
    ExpectNothingReceived();

    // Back to a clean state for the next group: requests still posted are flushed.
    ASSERT_EQ(ibv_detach_mcast(a.get(), &group, 0), 0);
    ASSERT_EQ(ibv_detach_mcast(b.get(), &group, 0), 0);
    for (ibv_qp* qp : {a.get(), b.get()}) {
      ASSERT_EQ(Modify(qp, IBV_QPS_ERR), 0);
      EXPECT_EQ(WaitForCompletion(receive_cq.get()).status, IBV_WC_WR_FLUSH_ERR);
      ASSERT_EQ(Modify(qp, IBV_QPS_RESET), 0);
      BringUp(qp);
    }
  }
}

TEST_F(DatagramTest, SenderThatBlocksItsOwnMulticastGetsNoCopy) {
  const auto basic = Attributes(IBV_QPT_UD, cq.get(), receive_cq.get());
  ibv_qp_init_attr_ex attr = ExtendedAttributes(host.pd.get(), basic, IBV_QP_EX_WITH_SEND);
  attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
  attr.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
  const Qp blocking(ibv_create_qp_ex(host.context.get(), &attr));
  ASSERT_NE(blocking, nullptr);
  BringUp(blocking.get());
  const Ah ah = AddressHandle(kIpv4Group, kIpv4Index);
  for (ibv_qp* qp : {blocking.get(), b.get()}) {
    ASSERT_EQ(ibv_attach_mcast(qp, &kIpv4Group, 0), 0);
    ASSERT_EQ(PostReceive(qp, host.Sge(kUpper, 200), qp->qp_num), 0);
  }
  SendRequest own(IBV_WR_SEND, host.Sge(0, 50));
  ASSERT_EQ(own.To(ah.get(), kMulticastQpn, kQkey).Post(blocking.get()), 0);
  ExpectSent();
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).wr_id, b->qp_num);
  ExpectNothingReceived();

  SendRequest of_another(IBV_WR_SEND, host.Sge(0, 50));
  ASSERT_EQ(of_another.To(ah.get(), kMulticastQpn, kQkey).Post(a.get()), 0);
  ExpectSent();
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).wr_id, blocking->qp_num);
  for (ibv_qp* qp : {blocking.get(), b.get()}) {
    ASSERT_EQ(ibv_detach_mcast(qp, &kIpv4Group, 0), 0);
  }
}

TEST_F(DatagramTest, DetachedQueuePairReceivesNothing) {
  const Ah ah = AddressHandle(kIpv4Group, kIpv4Index);
  ASSERT_EQ(ibv_attach_mcast(b.get(), &kIpv4Group, 0), 0);
  ASSERT_EQ(ibv_detach_mcast(b.get(), &kIpv4Group, 0), 0);
  ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 200), 1), 0);
  SendRequest send(IBV_WR_SEND, host.Sge(0, 50));
  ASSERT_EQ(send.To(ah.get(), kMulticastQpn, kQkey).Post(a.get()), 0);
  ExpectSent();
  ExpectNothingReceived();
}

// As cma_iboe_set_mgid of Linux names an IPv4 group for RoCEv1.
TEST_F(DatagramTest, Ipv4GroupHasTwoNames) {
  const ibv_gid name = GroupOf({0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3});
  ASSERT_EQ(ibv_attach_mcast(a.get(), &name, 0), 0);
  ASSERT_EQ(ibv_attach_mcast(b.get(), &kIpv4Group, 0), 0);
  for (const ibv_gid& destination : {name, kIpv4Group}) {
    const Ah ah = AddressHandle(destination, kIpv4Index);
    for (ibv_qp* qp : {a.get(), b.get()}) {
      ASSERT_EQ(PostReceive(qp, host.Sge(kUpper, 200), qp->qp_num), 0);
    }
    SendRequest send(IBV_WR_SEND, host.Sge(0, 50));
    ASSERT_EQ(send.To(ah.get(), kMulticastQpn, kQkey).Post(a.get()), 0);
    ExpectSent();
    EXPECT_NE(WaitForCompletion(receive_cq.get()).wr_id, WaitForCompletion(receive_cq.get()).wr_id);
    ExpectNothingReceived();
  }
  // Sent from an IPv6 address, the name means an IPv6 group.
  const Ah ah = AddressHandle(name, kLinkLocalIndex);
  ASSERT_EQ(PostReceive(a.get(), host.Sge(kUpper, 200), 5), 0);
  SendRequest send(IBV_WR_SEND, host.Sge(0, 50));
  ASSERT_EQ(send.To(ah.get(), kMulticastQpn, kQkey).Post(b.get()), 0);
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).wr_id, 5u);
  ExpectNothingReceived();
  EXPECT_EQ(ibv_detach_mcast(a.get(), &name, 0), 0);
  EXPECT_EQ(ibv_detach_mcast(b.get(), &kIpv4Group, 0), 0);
  EXPECT_EQ(ibv_detach_mcast(a.get(), &name, 0), EINVAL);
}

TEST_F(DatagramTest, MembershipIsChecked) {
  const ibv_gid unicast = OwnGid(kIpv4Index);
  EXPECT_EQ(ibv_attach_mcast(a.get(), &unicast, 0), EINVAL);     // IBA 11.3.1
  EXPECT_EQ(ibv_detach_mcast(a.get(), &kIpv4Group, 0), EINVAL);  // not attached
  ibv_qp_init_attr attr = RcAttributes(cq.get(), cq.get());
  const Qp connected(ibv_create_qp(host.pd.get(), &attr));
  EXPECT_EQ(ibv_attach_mcast(connected.get(), &kIpv4Group, 0), EINVAL);
}

// IBA o10-2.2.3.
TEST_F(DatagramTest, MemberOfAGroupCannotBeDestroyed) {
  ASSERT_EQ(ibv_attach_mcast(b.get(), &kIpv4Group, 0), 0);
  EXPECT_EQ(ibv_destroy_qp(b.get()), EBUSY);
  ASSERT_EQ(ibv_detach_mcast(b.get(), &kIpv4Group, 0), 0);
}

// A program leaves the destruction of everything to ibv_close_device.
TEST_F(DatagramTest, ClosingTheDeviceEndsMembershipsAndHandles) {
  Host leaving;
  Cq left_cq = leaving.CreateCq(16);
  ibv_qp_init_attr attr = Attributes(IBV_QPT_UD, left_cq.get(), left_cq.get());
  Qp left_qp(ibv_create_qp(leaving.pd.get(), &attr));
  BringUp(left_qp.get());
  ASSERT_EQ(ibv_attach_mcast(left_qp.get(), &kIpv4Group, 0), 0);
  ibv_ah_attr address = AddressOf(OwnGid(kIpv4Index), kIpv4Index);
  Ah left_ah(ibv_create_ah(leaving.pd.get(), &address));
  // The structs stay: the program may still point to them.
  static const std::array<void*, 5> left_behind = {left_ah.release(), left_qp.release(),
                                                   left_cq.release(), leaving.mr.release(),
                                                   leaving.pd.release()};
  ASSERT_NE(left_behind[0], nullptr);
  leaving.context.reset();

  const Ah ah = AddressHandle(kIpv4Group, kIpv4Index);
  ASSERT_EQ(ibv_attach_mcast(b.get(), &kIpv4Group, 0), 0);
  ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 200), 1), 0);
  SendRequest send(IBV_WR_SEND, host.Sge(0, 50));
  ASSERT_EQ(send.To(ah.get(), kMulticastQpn, kQkey).Post(a.get()), 0);
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).wr_id, 1u);
  ASSERT_EQ(ibv_detach_mcast(b.get(), &kIpv4Group, 0), 0);
}

}  // namespace
}  // namespace uroce::verbs::testing
