// Raw packet queue pairs and their flows in direct mode, over a DPDK ring: every frame that a
// program sends comes back from the wire.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "tests/verbs_provider/verbs_objects.h"

namespace uroce::verbs::testing {
namespace {

constexpr uint32_t kFrameBytes = 100;
constexpr size_t kSendAt = 0;
constexpr size_t kReceiveAt = 4'096;
constexpr uint8_t kMac[] = {2, 0, 0, 0, 0x12, 0x34};
constexpr uint8_t kOtherMac[] = {2, 0, 0, 0, 0x12, 0x35};

using Flow = std::unique_ptr<ibv_flow, Destroyer<ibv_flow, ibv_destroy_flow>>;

struct MacFlow {
  ibv_flow_attr attr;
  ibv_flow_spec_eth ethernet;
};

class RawPacketTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(host.mr, nullptr);
    cq = host.CreateCq(64);
    qp = Create(Attributes(IBV_QPT_RAW_PACKET, cq.get(), cq.get()));
    ASSERT_NE(qp, nullptr);
  }

  Qp Create(ibv_qp_init_attr attr) { return Qp(ibv_create_qp(host.pd.get(), &attr)); }

  static void BringUp(ibv_qp* raw) {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    ASSERT_EQ(ibv_modify_qp(raw, &attr, IBV_QP_STATE | IBV_QP_PORT), 0);
    ASSERT_EQ(Modify(raw, IBV_QPS_RTR), 0);
    ASSERT_EQ(Modify(raw, IBV_QPS_RTS), 0);
  }

  // A frame to `mac` in the buffer at kSendAt.
  void Write(const uint8_t (&mac)[6]) {
    uint8_t* const frame = host.data() + kSendAt;
    for (uint32_t i = 0; i < kFrameBytes; ++i) frame[i] = static_cast<uint8_t>(i * 3);
    std::memcpy(frame, mac, sizeof mac);
    std::memcpy(frame + 12, "\x88\xb5", 2);  // IEEE 802, for experiments
  }
  void Send(const uint8_t (&mac)[6]) {
    Write(mac);
    ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(kSendAt, kFrameBytes)).Post(qp.get()), 0);
  }
  void Receive(ibv_qp* raw, uint64_t id, uint32_t bytes = 2'048) {
    ASSERT_EQ(PostReceive(raw, host.Sge(kReceiveAt, bytes), id), 0);
  }
  void ExpectArrival(uint64_t id) {
    const ibv_wc wc = WaitForCompletion(cq.get());
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, IBV_WC_RECV);
    EXPECT_EQ(wc.wr_id, id);
    EXPECT_EQ(wc.byte_len, kFrameBytes);
    EXPECT_EQ(wc.wc_flags, 0u);
    EXPECT_EQ(std::memcmp(host.data() + kReceiveAt, host.data() + kSendAt, kFrameBytes), 0);
  }
  void ExpectSent() {
    const ibv_wc wc = WaitForCompletion(cq.get());
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, IBV_WC_SEND);
  }

  static MacFlow FlowTo(const uint8_t (&mac)[6]) {
    MacFlow flow = {};
    flow.attr.type = IBV_FLOW_ATTR_NORMAL;
    flow.attr.size = sizeof flow;
    flow.attr.num_of_specs = 1;
    flow.attr.port = 1;
    flow.ethernet.type = IBV_FLOW_SPEC_ETH;
    flow.ethernet.size = sizeof flow.ethernet;
    std::memcpy(flow.ethernet.val.dst_mac, mac, sizeof mac);
    std::memset(flow.ethernet.mask.dst_mac, 0xff, sizeof mac);
    return flow;
  }
  static Flow Steer(ibv_qp* raw, MacFlow flow) { return Flow(ibv_create_flow(raw, &flow.attr)); }
  static Flow Steer(ibv_qp* raw, ibv_flow_attr_type type) {
    ibv_flow_attr attr = {};
    attr.type = type;
    attr.size = sizeof attr;
    attr.port = 1;
    return Flow(ibv_create_flow(raw, &attr));
  }

  Host host;
  Cq cq;
  Qp qp;
};

TEST_F(RawPacketTest, DeviceReportsRawPacketCapabilities) {
  ibv_device_attr_ex attr = {};
  ASSERT_EQ(ibv_query_device_ex(host.context.get(), nullptr, &attr), 0);
  EXPECT_EQ(attr.orig_attr.max_raw_ethy_qp, attr.orig_attr.max_qp);
  EXPECT_NE(attr.orig_attr.device_cap_flags & IBV_DEVICE_MANAGED_FLOW_STEERING, 0u);
  EXPECT_NE(attr.device_cap_flags_ex & IBV_DEVICE_MANAGED_FLOW_STEERING, 0u);
  EXPECT_NE(attr.packet_pacing_caps.supported_qpts & 1u << IBV_QPT_RAW_PACKET, 0u);
  EXPECT_EQ(attr.raw_packet_caps, 0u) << "no VLAN stripping, no checksums";
  EXPECT_EQ(attr.tso_caps.max_tso, 0u);
  EXPECT_EQ(attr.rss_caps.supported_qpts, 0u);
}

TEST_F(RawPacketTest, AttributesAreThoseOfTheKernelsTable) {
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE), EINVAL) << "without the port";
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_QKEY), EINVAL);
  BringUp(qp.get());
  EXPECT_EQ(Query(qp.get()).qp_state, IBV_QPS_RTS);
  EXPECT_EQ(Query(qp.get()).port_num, 1);
  attr.qp_state = IBV_QPS_RTS;
  attr.rate_limit = 1'000'000;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_RATE_LIMIT), 0);
  EXPECT_EQ(Query(qp.get()).rate_limit, 1'000'000u);
}

TEST_F(RawPacketTest, FrameArrivesByItsFlow) {
  BringUp(qp.get());
  const Flow flow = Steer(qp.get(), FlowTo(kMac));
  ASSERT_NE(flow, nullptr);
  EXPECT_EQ(flow->context, host.context.get());
  // Sees the frame that no flow takes leave and come back: no later test finds it on the ring.
  const Qp watcher = Create(Attributes(IBV_QPT_RAW_PACKET, cq.get(), cq.get()));
  BringUp(watcher.get());
  Flow sniffer = Steer(watcher.get(), IBV_FLOW_ATTR_SNIFFER);
  for (int i = 0; i < 2; ++i) Receive(watcher.get(), 90);
  Receive(qp.get(), 5);
  Send(kOtherMac);
  for (int i = 0; i < 3; ++i) EXPECT_NE(WaitForCompletion(cq.get()).wr_id, 5u);
  sniffer.reset();
  Send(kMac);
  ExpectSent();
  ExpectArrival(5);
}

// The ring of this test returns every frame, so that one frame that also went there came twice.
TEST_F(RawPacketTest, FrameOfAnotherQueuePairComesBackOnce) {
  const Qp receiver = Create(Attributes(IBV_QPT_RAW_PACKET, cq.get(), cq.get()));
  BringUp(qp.get());
  BringUp(receiver.get());
  const Flow flow = Steer(receiver.get(), FlowTo(kMac));
  for (uint64_t id = 1; id <= 4; ++id) Receive(receiver.get(), id);
  for (uint64_t id = 1; id <= 2; ++id) {
    Send(kMac);
    ExpectSent();
    ExpectArrival(id);
  }
}

TEST_F(RawPacketTest, ExtendedWorkRequestsAndInlineData) {
  const ibv_qp_init_attr basic = Attributes(IBV_QPT_RAW_PACKET, cq.get(), cq.get());
  ibv_qp_init_attr_ex attr = ExtendedAttributes(host.pd.get(), basic, IBV_QP_EX_WITH_SEND_WITH_IMM);
  EXPECT_EQ(ibv_create_qp_ex(host.context.get(), &attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  attr = ExtendedAttributes(host.pd.get(), basic, IBV_QP_EX_WITH_SEND);
  const Qp extended(ibv_create_qp_ex(host.context.get(), &attr));
  ASSERT_NE(extended, nullptr);
  BringUp(extended.get());
  const Flow flow = Steer(extended.get(), FlowTo(kMac));
  ASSERT_NE(flow, nullptr);
  ibv_qp_ex* const ex = ibv_qp_to_qp_ex(extended.get());
  for (const bool is_inline : {false, true}) {
    Receive(extended.get(), 6);
    Write(kMac);
    ibv_wr_start(ex);
    ex->wr_id = 1;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(ex);
    if (is_inline) {
      ibv_wr_set_inline_data(ex, host.data() + kSendAt, kFrameBytes);
    } else {
      ibv_wr_set_sge(ex, host.mr->lkey, host.address(kSendAt), kFrameBytes);
    }
    ASSERT_EQ(ibv_wr_complete(ex), 0);
    ExpectSent();
    ExpectArrival(6);
  }
}

TEST_F(RawPacketTest, ReceivesFromASharedQueue) {
  ibv_srq_init_attr attr = {};
  attr.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  const Srq srq(ibv_create_srq(host.pd.get(), &attr));
  ASSERT_NE(srq, nullptr);
  const Qp shared = Create(Attributes(IBV_QPT_RAW_PACKET, cq.get(), cq.get(), srq.get()));
  ASSERT_NE(shared, nullptr);
  BringUp(shared.get());
  BringUp(qp.get());
  const Flow flow = Steer(shared.get(), IBV_FLOW_ATTR_ALL_DEFAULT);
  ASSERT_NE(flow, nullptr);
  ASSERT_EQ(PostReceive(srq.get(), host.Sge(kReceiveAt, 2'048), 7), 0);
  Send(kMac);
  ExpectSent();
  ExpectArrival(7);
}

TEST_F(RawPacketTest, FrameThatDoesNotFit) {
  BringUp(qp.get());
  const Flow flow = Steer(qp.get(), FlowTo(kMac));
  Receive(qp.get(), 5, kFrameBytes - 1);
  Send(kMac);
  ExpectSent();
  const ibv_wc wc = WaitForCompletion(cq.get());
  EXPECT_EQ(wc.status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(wc.wr_id, 5u);
  EXPECT_EQ(Query(qp.get()).qp_state, IBV_QPS_ERR);
}

TEST_F(RawPacketTest, FramesThatTheDeviceCannotSend) {
  BringUp(qp.get());
  EXPECT_EQ(SendRequest(IBV_WR_SEND, host.Sge(kSendAt, 13)).Post(qp.get()), EINVAL);
  SendRequest checksum(IBV_WR_SEND, host.Sge(kSendAt, 60));
  checksum.send_flags |= IBV_SEND_IP_CSUM;
  EXPECT_EQ(checksum.Post(qp.get()), EINVAL);
  ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(kSendAt, 16'384)).Post(qp.get()), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(Query(qp.get()).qp_state, IBV_QPS_SQE);
  ASSERT_EQ(Modify(qp.get(), IBV_QPS_RTS), 0);
  ASSERT_EQ(SendRequest(IBV_WR_RDMA_WRITE, host.Sge(kSendAt, 60)).Post(qp.get()), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_LOC_QP_OP_ERR);
  EXPECT_EQ(Query(qp.get()).qp_state, IBV_QPS_SQE);
  ASSERT_EQ(Modify(qp.get(), IBV_QPS_RTS), 0);
}

// The ring returns each frame, so the sniffer sees it leave and arrive.
TEST_F(RawPacketTest, SnifferSeesBothDirections) {
  BringUp(qp.get());
  const Flow flow = Steer(qp.get(), IBV_FLOW_ATTR_SNIFFER);
  ASSERT_NE(flow, nullptr);
  Receive(qp.get(), 1);
  Receive(qp.get(), 2);
  Send(kMac);
  int received = 0;
  for (int i = 0; i < 3; ++i) received += WaitForCompletion(cq.get()).opcode == IBV_WC_RECV;
  EXPECT_EQ(received, 2);
}

TEST_F(RawPacketTest, QueuePairWithFlowsStays) {
  {
    const Flow flow = Steer(qp.get(), FlowTo(kMac));
    ASSERT_NE(flow, nullptr);
    EXPECT_EQ(ibv_destroy_qp(qp.get()), EBUSY);
  }
  EXPECT_EQ(ibv_destroy_qp(qp.release()), 0);
}

TEST_F(RawPacketTest, DestroyedFlowTakesNothing) {
  BringUp(qp.get());
  const Qp other = Create(Attributes(IBV_QPT_RAW_PACKET, cq.get(), cq.get()));
  BringUp(other.get());
  Flow first = Steer(qp.get(), FlowTo(kMac));
  const Flow second = Steer(other.get(), IBV_FLOW_ATTR_ALL_DEFAULT);
  Receive(qp.get(), 1);
  Receive(other.get(), 2);
  first.reset();
  Send(kMac);
  ExpectSent();
  ExpectArrival(2);
}

TEST_F(RawPacketTest, FlowsThatAreRefused) {
  MacFlow flow = FlowTo(kMac);
  flow.attr.port = 2;
  EXPECT_EQ(Steer(qp.get(), flow), nullptr);
  EXPECT_EQ(errno, EINVAL);
  flow = FlowTo(kMac);
  flow.attr.flags = IBV_FLOW_ATTR_FLAGS_EGRESS;
  EXPECT_EQ(Steer(qp.get(), flow), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  const Qp connection = Create(RcAttributes(cq.get(), cq.get()));
  EXPECT_EQ(Steer(connection.get(), FlowTo(kMac)), nullptr);
  EXPECT_EQ(errno, EINVAL);
  const Qp datagrams = Create(Attributes(IBV_QPT_UD, cq.get(), cq.get()));
  EXPECT_EQ(Steer(datagrams.get(), FlowTo(kMac)), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(RawPacketTest, MoreFlowsThanThereIsRoomForAreRefused) {
  constexpr size_t kFlows = 65'536;
  constexpr size_t kFlowsOfOne = kFlows / 16;
  std::vector<Qp> owners;
  std::vector<Flow> flows;
  uint8_t mac[] = {2, 0, 0, 0, 0, 0};
  for (size_t i = 0; i < kFlows; ++i) {
    if (i % kFlowsOfOne == 0) {
      owners.push_back(Create(Attributes(IBV_QPT_RAW_PACKET, cq.get(), cq.get())));
    }
    mac[4] = static_cast<uint8_t>(i >> 8);
    mac[5] = static_cast<uint8_t>(i);
    flows.push_back(Steer(owners.back().get(), FlowTo(mac)));
    ASSERT_NE(flows.back(), nullptr) << i;
  }
  EXPECT_EQ(Steer(qp.get(), FlowTo(kMac)), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  flows.pop_back();
  EXPECT_NE(Steer(qp.get(), FlowTo(kMac)), nullptr);
}

TEST_F(RawPacketTest, ForkedChildHasNoFlows) {
  Flow flow = Steer(qp.get(), FlowTo(kMac));
  ASSERT_NE(flow, nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const bool is_refused = Steer(qp.get(), FlowTo(kOtherMac)) == nullptr && errno == EIO;
    _exit(is_refused && ibv_destroy_flow(flow.get()) == EIO ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// A program closes its device without destroying its objects: the flow must end.
TEST_F(RawPacketTest, FlowEndsWithItsDevice) {
  BringUp(qp.get());
  Host leaving;
  Cq left_cq = leaving.CreateCq(4);
  ibv_qp_init_attr attr = Attributes(IBV_QPT_RAW_PACKET, left_cq.get(), left_cq.get());
  Qp left_qp(ibv_create_qp(leaving.pd.get(), &attr));
  ASSERT_NE(left_qp, nullptr);
  BringUp(left_qp.get());
  Flow left_flow = Steer(left_qp.get(), FlowTo(kMac));
  ASSERT_NE(left_flow, nullptr);
  // The structs stay: the program may still point to them.
  static const std::array<void*, 5> left_behind = {left_flow.release(), left_qp.release(),
                                                   left_cq.release(), leaving.mr.release(),
                                                   leaving.pd.release()};
  ASSERT_NE(left_behind[0], nullptr);
  leaving.context.reset();
  const Flow flow = Steer(qp.get(), IBV_FLOW_ATTR_ALL_DEFAULT);
  Receive(qp.get(), 3);
  Send(kMac);
  ExpectSent();
  ExpectArrival(3);
}

}  // namespace
}  // namespace uroce::verbs::testing
