// Datagrams of UD queue pairs (UCX #6317, #10209; rdma-core #1100, #1102). More of them are in
// tests/verbs_provider/datagram_test.cc.
#include <endian.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <netinet/ip.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "tests/verbs_provider/loopback.h"

namespace uroce::verbs::testing {
namespace {

constexpr uint32_t kQkey = 0x1111'1111;
constexpr size_t kGrhBytes = 40;
constexpr uint8_t kTrafficClass = 0x68;
constexpr uint8_t kHopLimit = 33;
constexpr uint32_t kFlowLabel = 0x12345;

class DatagramCases : public LoopbackTest {
 protected:
  void SetUp() override {
    for (Qp* const qp : {&a, &b}) {
      ibv_qp_init_attr attr = Attributes(IBV_QPT_UD, cq.get(), receive_cq.get());
      qp->reset(ibv_create_qp(host.pd.get(), &attr));
      ASSERT_NE(*qp, nullptr);
      BringUp(qp->get());
    }
  }
  Ah AddressWithEveryField(uint8_t gid_index) {
    ibv_ah_attr attr = AddressOf(OwnGid(gid_index), gid_index);
    attr.grh.traffic_class = kTrafficClass;
    attr.grh.hop_limit = kHopLimit;
    attr.grh.flow_label = kFlowLabel;
    return Ah(ibv_create_ah(host.pd.get(), &attr));
  }
  void Send(ibv_ah* ah, uint32_t qpn, uint32_t bytes) {
    SendRequest send(IBV_WR_SEND, host.Sge(0, bytes));
    ASSERT_EQ(send.To(ah, qpn, kQkey).Post(a.get()), 0);
    EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
  }
  uint8_t* received() { return host.data() + kUpper; }

  Qp a, b;
};

uint16_t OnesComplementSum(const uint8_t* header, size_t bytes) {
  uint32_t sum = 0;
  for (size_t i = 0; i < bytes; i += 2)
    sum += static_cast<uint32_t>(header[i] << 8 | header[i + 1]);
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

// Programs look into the header area: UCX reads the source address, others the TTL.
TEST_F(DatagramCases, Ipv4HeaderIsWhole) {
  ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 300), 7), 0);
  Send(AddressWithEveryField(1).get(), b->qp_num, 77);
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).byte_len, kGrhBytes + 77);
  iphdr ip;
  std::memcpy(&ip, received() + 20, sizeof ip);
  EXPECT_EQ(ip.ttl, kHopLimit);
  EXPECT_EQ(ip.tos, kTrafficClass);
  // IPv4, UDP, BTH, DETH, the data with 3 bytes of padding, ICRC.
  EXPECT_EQ(be16toh(ip.tot_len), 20 + 8 + 12 + 8 + 77 + 3 + 4);
  EXPECT_EQ(OnesComplementSum(received() + 20, sizeof ip), 0xffff);
}

TEST_F(DatagramCases, Ipv6HeaderHasTheFieldsOfTheAddressHandle) {
  ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 300), 7), 0);
  Send(AddressWithEveryField(0).get(), b->qp_num, 77);
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).byte_len, kGrhBytes + 77);
  ibv_grh grh;
  std::memcpy(&grh, received(), sizeof grh);
  EXPECT_EQ(be32toh(grh.version_tclass_flow),
            6u << 28 | uint32_t{kTrafficClass} << 20 | kFlowLabel);
  EXPECT_EQ(grh.hop_limit, kHopLimit);
}

// The sender of a datagram cannot know how much room there is. Nothing is written past the buffer.
TEST_F(DatagramCases, DatagramLongerThanItsBufferWritesNothingBehindIt) {
  std::fill_n(received(), 300, uint8_t{0xee});
  ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 100), 7), 0);
  Send(AddressWithEveryField(1).get(), b->qp_num, 77);
  EXPECT_TRUE(std::all_of(received() + 100, received() + 300, [](int x) { return x == 0xee; }));
}

// A sender that is a member of its group gets its own datagram as every member does: once.
TEST_F(DatagramCases, SenderThatIsAMemberReceivesOnceUntilItLeaves) {
  ibv_gid group = {};
  const uint8_t address[] = {0xff, 0xff, 239, 7, 7, 9};
  std::copy(std::begin(address), std::end(address), group.raw + 10);
  ASSERT_EQ(ibv_attach_mcast(a.get(), &group, 0), 0);
  ASSERT_EQ(ibv_attach_mcast(b.get(), &group, 0), 0);
  ASSERT_EQ(ibv_attach_mcast(b.get(), &group, 0), 0) << "again, which makes no second copy";
  ibv_ah_attr attr = AddressOf(group, 1);
  const Ah ah(ibv_create_ah(host.pd.get(), &attr));
  ASSERT_NE(ah, nullptr);
  for (uint64_t id = 0; id < 4; ++id) {
    ASSERT_EQ(PostReceive(id % 2 == 0 ? a.get() : b.get(), host.Sge(kUpper, 200), id), 0);
  }
  Send(ah.get(), 0xffffff, 50);
  const ibv_wc first = WaitForCompletion(receive_cq.get());
  const ibv_wc second = WaitForCompletion(receive_cq.get());
  EXPECT_EQ(first.wr_id + second.wr_id, 1u);
  EXPECT_EQ(std::memcmp(received() + 36, address + 2, 4), 0) << "the destination is the group";

  ASSERT_EQ(ibv_detach_mcast(b.get(), &group, 0), 0);
  Send(ah.get(), 0xffffff, 50);
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).wr_id, 2u);
  ExpectNothingReceived();
  EXPECT_NE(ibv_detach_mcast(b.get(), &group, 0), 0);
  EXPECT_EQ(ibv_detach_mcast(a.get(), &group, 0), 0);
}

}  // namespace
}  // namespace uroce::verbs::testing
