#include "tests/system/network/traffic.h"

#include <gtest/gtest.h>

#include <sstream>
#include <vector>

#include "transport/wire/aeth.h"
#include "transport/wire/bth.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/opcode.h"
#include "transport/wire/udp.h"

namespace uroce::network {
namespace {

using namespace transport;

constexpr size_t kIcrcBytes = 4;
constexpr size_t kUdpOffset = EthernetHeader::kBytes + Ipv4Header::kBytes;
constexpr size_t kBthOffset = kUdpOffset + UdpHeader::kBytes;

// A RoCE frame over IPv4 with `behind_bth` zero bytes between BTH and ICRC.
std::vector<uint8_t> RoceFrame(uint8_t opcode, uint32_t psn, size_t behind_bth,
                               uint8_t traffic_class = 0) {
  std::vector<uint8_t> frame(kBthOffset + Bth::kBytes + behind_bth + kIcrcBytes);
  EmitEthernet({.ether_type = EthernetHeader::kIpv4}, frame.data());
  EmitIpv4({.traffic_class = traffic_class,
            .total_length = static_cast<uint16_t>(frame.size() - EthernetHeader::kBytes),
            .protocol = UdpHeader::kIpProtocol},
           &frame[EthernetHeader::kBytes]);
  EmitUdp({.destination_port = UdpHeader::kRocePort}, &frame[kUdpOffset]);
  EmitBth({.opcode = opcode, .destination_qpn = Qpn{17}, .psn = Psn(psn)}, &frame[kBthOffset]);
  return frame;
}

TEST(TrafficTest, KindsOfFrames) {
  std::vector<uint8_t> frame = RoceFrame(kRcSendOnly, 1, 100);
  const FrameKind roce = KindOf(frame);
  EXPECT_EQ(roce.traffic, Traffic::kRoce);
  EXPECT_EQ(roce.packet.data(), &frame[kBthOffset]);
  frame[EthernetHeader::kBytes + 9] = 6;
  EXPECT_EQ(KindOf(frame).traffic, Traffic::kTcp);
  EXPECT_EQ(KindOf(std::vector<uint8_t>(60)).traffic, Traffic::kOther);
}

TEST(TrafficTest, MarkIsForSendersThatTakePartInEcnAndKeepsTheChecksumRight) {
  std::vector<uint8_t> deaf = RoceFrame(kRcSendOnly, 1, 100);
  EXPECT_FALSE(Mark(deaf));
  std::vector<uint8_t> frame = RoceFrame(kRcSendOnly, 1, 100, /*traffic_class=*/0x42);
  ASSERT_TRUE(Mark(frame));
  const auto ip = ParseIpv4(&frame[EthernetHeader::kBytes]);
  ASSERT_TRUE(ip);  // the checksum is right
  EXPECT_EQ(ip->traffic_class, 0x43);
}

TEST(TrafficTest, StreamTellsFirstTransmissionsFromOthers) {
  RoceStream stream;
  const auto count = [&stream](const std::vector<uint8_t>& frame) {
    stream.Count(KindOf(frame).packet);
  };
  count(RoceFrame(kRcSendFirst, 0xffffff, 1024));
  count(RoceFrame(kRcSendLast, 0, 1000));
  count(RoceFrame(kRcSendLast, 0, 1000));
  EXPECT_EQ(stream.fresh_packets, 2u);
  EXPECT_EQ(stream.resent_packets, 1u);
  EXPECT_EQ(stream.fresh_bytes, 2024u);

  std::vector<uint8_t> nak = RoceFrame(kRcAcknowledge, 5, Aeth::kBytes);
  count(nak);  // syndrome 0
  EmitAeth({.syndrome = Syndrome::Nak(NakCode::kPsnSequenceError)}, &nak[kBthOffset + Bth::kBytes]);
  count(nak);
  EXPECT_EQ(stream.acks, 1u);
  EXPECT_EQ(stream.sequence_naks, 1u);
}

TEST(TrafficTest, CountersArePrintedAsJson) {
  TrafficCounters counters;
  const auto frame = RoceFrame(kRcSendOnly, 1, 100);
  counters.Count(2, KindOf(frame), frame.size(), Fate::kDelivered, /*is_marked=*/true, 77);
  counters.Count(2, KindOf(frame), frame.size(), Fate::kLost, /*is_marked=*/false, 0);
  std::ostringstream out;
  counters.Print(out);
  EXPECT_EQ(out.str(),
            "{\"marked\":1,\"longest_queue\":77,\"delivered\":1,\"queue_full\":0,\"lost\":1,"
            "\"path_down\":0,\"too_long\":0,\"traffic\":[{\"host\":2,\"kind\":\"roce\","
            "\"frames_in\":2,\"bytes_in\":316,\"frames_out\":1,\"bytes_out\":158}],\"streams\":["
            "{\"host\":2,\"qpn\":17,\"fresh_packets\":1,\"resent_packets\":1,\"fresh_bytes\":100,"
            "\"read_requests\":0,\"read_requests_again\":0,\"acks\":0,\"sequence_naks\":0,"
            "\"other_naks\":0,\"congestion_notifications\":0}]}");
}

}  // namespace
}  // namespace uroce::network
