#include "dpdk_nic/steering/frame_fields.h"

#include <gtest/gtest.h>

#include "tests/dpdk_nic/steering/ethernet_frames.h"

namespace uroce::nic {
namespace {

using transport::EthernetHeader;
using Pair = std::array<uint8_t, 2>;

constexpr uint16_t kVlan = 0x8100;
constexpr uint16_t kServiceVlan = 0x88a8;
constexpr size_t kIp = EthernetHeader::kBytes;

// RFC 8200, with flow label 0xabcde and traffic class 0x5a.
Frame Ipv6Packet(uint8_t next_header, std::span<const uint8_t> segment) {
  Frame packet(40);
  transport::Store32(0x65aa'bcde, packet.data());
  transport::Store16(static_cast<uint16_t>(segment.size()), packet.data() + 4);
  packet[6] = next_header;
  packet[7] = 61;
  packet[8 + 15] = 1;
  packet[24 + 15] = 2;
  packet.insert(packet.end(), segment.begin(), segment.end());
  return packet;
}

TEST(FrameFieldsTest, EthernetAlone) {
  const FrameFields fields = ReadFrameFields(EthernetFrame(0x88b5, Frame(46, 0xff)));
  EXPECT_EQ(fields.destination_mac, kTo);
  EXPECT_EQ(fields.source_mac, kFrom);
  EXPECT_EQ(fields.ether_type, (Pair{0x88, 0xb5}));
  EXPECT_EQ(fields.layers, 0);
  FrameFields rest = fields;
  rest.destination_mac = rest.source_mac = {};
  rest.ether_type = {};
  EXPECT_EQ(rest, FrameFields{}) << "of layers that the frame does not have";
}

TEST(FrameFieldsTest, Ipv4AndUdp) {
  const FrameFields fields = ReadFrameFields(UdpFrame(0x1234, 0x5678));
  EXPECT_EQ(fields.layers, FrameFields::kIpv4 | FrameFields::kUdp);
  EXPECT_EQ(fields.ipv4_source, kFromIpv4);
  EXPECT_EQ(fields.ipv4_destination, kToIpv4);
  EXPECT_EQ(fields.ipv4_protocol, kUdpNumber);
  EXPECT_EQ(fields.ipv4_type_of_service, 0x2e);
  EXPECT_EQ(fields.ipv4_time_to_live, 63);
  EXPECT_EQ(fields.ipv4_flags, FrameFields::kDontFragment);
  EXPECT_EQ(fields.source_port, (Pair{0x12, 0x34}));
  EXPECT_EQ(fields.destination_port, (Pair{0x56, 0x78}));
}

TEST(FrameFieldsTest, Ipv6AndTcp) {
  const Frame packet = Ipv6Packet(kTcpNumber, Segment(80, 443));
  const FrameFields fields = ReadFrameFields(EthernetFrame(EthernetHeader::kIpv6, packet));
  EXPECT_EQ(fields.layers, FrameFields::kIpv6 | FrameFields::kTcp);
  EXPECT_EQ(fields.ipv6_source[15], 1);
  EXPECT_EQ(fields.ipv6_destination[15], 2);
  EXPECT_EQ(fields.ipv6_flow_label, (std::array<uint8_t, 4>{0, 0x0a, 0xbc, 0xde}));
  EXPECT_EQ(fields.ipv6_traffic_class, 0x5a);
  EXPECT_EQ(fields.ipv6_next_header, kTcpNumber);
  EXPECT_EQ(fields.ipv6_hop_limit, 61);
  EXPECT_EQ(fields.source_port, (Pair{0, 80}));
  EXPECT_EQ(fields.destination_port, (Pair{443 >> 8, 443 & 0xff}));
}

TEST(FrameFieldsTest, TypeBehindTheLastTagAndTagOfTheFirst) {
  const Frame inner = Tagged(UdpFrame(1, 2), kVlan, 0x6005);
  const FrameFields one = ReadFrameFields(inner);
  EXPECT_EQ(one.layers, FrameFields::kVlan | FrameFields::kIpv4 | FrameFields::kUdp);
  EXPECT_EQ(one.vlan_tag, (Pair{0x60, 0x05}));
  EXPECT_EQ(one.ether_type, (Pair{0x08, 0x00}));
  const FrameFields two = ReadFrameFields(Tagged(inner, kServiceVlan, 0x0fff));
  EXPECT_EQ(two.vlan_tag, (Pair{0x0f, 0xff}));
  EXPECT_EQ(two.destination_port, (Pair{0, 2}));
}

TEST(FrameFieldsTest, PortsBehindIpv4Options) {
  Frame frame = UdpFrame(1, 2);
  frame[kIp] = 0x46;  // six words
  const Frame option(4, 0x01);
  frame.insert(frame.begin() + kIp + 20, option.begin(), option.end());
  EXPECT_EQ(ReadFrameFields(frame).destination_port, (Pair{0, 2}));
}

TEST(FrameFieldsTest, OnlyTheFirstFragmentHasPorts) {
  Frame frame = UdpFrame(1, 2);
  frame[kIp + 6] = 0x20;  // MF
  EXPECT_EQ(ReadFrameFields(frame).ipv4_flags, FrameFields::kMoreFragments);
  EXPECT_EQ(ReadFrameFields(frame).destination_port, (Pair{0, 2}));
  frame[kIp + 7] = 1;  // offset
  EXPECT_EQ(ReadFrameFields(frame).layers, FrameFields::kIpv4);
  EXPECT_EQ(ReadFrameFields(frame).destination_port, Pair{});
}

TEST(FrameFieldsTest, OtherProtocolsHaveNoPorts) {
  constexpr uint8_t kIcmp = 1;
  const Frame packet = Ipv4Packet(kIcmp, Segment(1, 2));
  const FrameFields fields = ReadFrameFields(EthernetFrame(EthernetHeader::kIpv4, packet));
  EXPECT_EQ(fields.layers, FrameFields::kIpv4);
  EXPECT_EQ(fields.destination_port, Pair{});
}

TEST(FrameFieldsTest, TagThatNothingFollows) {
  Frame frame = Tagged(EthernetFrame(0x88b5, {}), kVlan, 7);
  EXPECT_EQ(ReadFrameFields(frame).vlan_tag, (Pair{0, 7}));
  EXPECT_EQ(ReadFrameFields(frame).ether_type, (Pair{0x88, 0xb5}));
  frame.pop_back();
  EXPECT_EQ(ReadFrameFields(frame).layers, 0) << "without a type behind it, it is none";
  EXPECT_EQ(ReadFrameFields(frame).ether_type, (Pair{0x81, 0x00}));
}

TEST(FrameFieldsTest, HeadersThatMakeNoSenseAreNone) {
  Frame frame = UdpFrame(1, 2);
  frame[kIp] = 0x65;  // version
  EXPECT_EQ(ReadFrameFields(frame).layers, 0);
  frame[kIp] = 0x44;  // four words
  EXPECT_EQ(ReadFrameFields(frame).layers, 0);
  frame[kIp] = 0x48;  // one word more than there is
  EXPECT_EQ(ReadFrameFields(frame).layers, 0);
  Frame wrong = EthernetFrame(EthernetHeader::kIpv6, Ipv6Packet(kUdpNumber, Segment(1, 2)));
  wrong[kIp] = 0x45;
  EXPECT_EQ(ReadFrameFields(wrong).layers, 0);
}

// At every length ReadFrameFields reads the fields that are there, and nothing beyond the end (the
// address sanitizer checks).
TEST(FrameFieldsTest, FramesThatEndEarly) {
  const Frame tagged = Tagged(UdpFrame(1, 2), kVlan, 7);
  const Frame ipv6 = EthernetFrame(EthernetHeader::kIpv6, Ipv6Packet(kUdpNumber, Segment(1, 2)));
  for (const Frame& whole : {tagged, ipv6}) {
    for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
      const Frame cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(bytes));
      const FrameFields fields = ReadFrameFields(cut);
      EXPECT_EQ(fields.destination_mac == kTo, bytes >= EthernetHeader::kBytes) << bytes;
      EXPECT_EQ((fields.layers & FrameFields::kUdp) != 0, bytes >= whole.size() - 4) << bytes;
    }
  }
}

}  // namespace
}  // namespace uroce::nic
