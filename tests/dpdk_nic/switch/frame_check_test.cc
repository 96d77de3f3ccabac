#include "dpdk_nic/switch/frame_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/dpdk_nic/switch/switch_frames.h"
#include "transport/wire/byte_order.h"
#include "transport/wire/ipv4.h"

namespace uroce::nic {
namespace {

using control::Block;
using control::SwitchCounters;
using transport::Gid;
using transport::Qpn;
using Frame = std::vector<uint8_t>;

constexpr size_t kIp = 14;
constexpr uint64_t kService = 0x0106'1d2f;

// Offsets in an IPv4 frame.
constexpr size_t kUdp = kIp + 20;
constexpr size_t kBth = kUdp + 8;

FrameKind KindOf(const Frame& frame, RoceHeaders* headers) {
  return Classify(FrameHead(frame), frame.size(), headers);
}
FrameKind KindOf(const Frame& frame) {
  RoceHeaders headers;
  return KindOf(frame, &headers);
}

// Changes one byte of an IPv4 frame and corrects the checksum.
Frame With(Frame frame, size_t offset, uint8_t byte) {
  frame[offset] = byte;
  transport::CorrectIpv4Checksum(frame.data() + kIp);
  return frame;
}

TEST(FrameClassifierTest, HeadersOfAConnectedFrameAreFound) {
  RoceHeaders headers;
  const Frame frame = RoceSpec{}.Build();
  ASSERT_EQ(KindOf(frame, &headers), FrameKind::kRoce);
  EXPECT_EQ(headers.source_mac, kFarMac);
  EXPECT_EQ(headers.source, kFarIpv4);
  EXPECT_EQ(headers.destination, kOurIpv4);
  EXPECT_EQ(headers.destination_qpn, QpOf(kAlice, 5));
  EXPECT_FALSE(headers.IsDatagram());
  EXPECT_FALSE(headers.cm.has_value());
  EXPECT_EQ(headers.packet_end, frame.size());
}

TEST(FrameClassifierTest, HeadersOfAnIpv6DatagramAreFound) {
  RoceSpec spec{.source = kFarIpv6, .destination = kOurIpv6, .opcode = kUdSendOnlyImmediate};
  RoceHeaders headers;
  ASSERT_EQ(KindOf(spec.Build(), &headers), FrameKind::kRoce);
  EXPECT_TRUE(headers.is_ipv6());
  EXPECT_EQ(headers.source, kFarIpv6);
  EXPECT_EQ(headers.destination, kOurIpv6);
  EXPECT_EQ(headers.source_qpn, Qpn{77});
  EXPECT_TRUE(headers.IsDatagram());
}

TEST(FrameClassifierTest, EthernetPaddingIsNotOfThePacket) {
  RoceHeaders headers;
  Frame frame = RoceSpec{}.Build();
  const size_t packet_end = frame.size();
  frame.resize(packet_end + 9);
  ASSERT_EQ(KindOf(frame, &headers), FrameKind::kRoce);
  EXPECT_EQ(headers.packet_end, packet_end);
}

// A read beyond the end would see bytes of the frame before.
TEST(FrameClassifierTest, TruncatedFrameIsNeverTakenForAWholeOne) {
  const RoceSpec ipv4 =
      Management({.attribute = Mad::kReq, .request_service = kService}, RoceSpec{});
  RoceSpec ipv6 = ipv4;
  ipv6.source = kFarIpv6;
  ipv6.destination = kOurIpv6;
  for (const RoceSpec& spec : {ipv4, ipv6}) {
    const Frame whole = spec.Build();
    ASSERT_EQ(KindOf(whole), FrameKind::kRoce);
    for (size_t bytes = 1; bytes < whole.size(); ++bytes) {
      EXPECT_NE(KindOf(Frame(whole.begin(), whole.begin() + bytes)), FrameKind::kRoce) << bytes;
    }
  }
}

TEST(FrameClassifierTest, NonRoceFrameIsClassifiedAsOther) {
  const Frame frame = RoceSpec{}.Build();
  EXPECT_EQ(KindOf(With(frame, 12, 0x81)), FrameKind::kOther);       // VLAN
  EXPECT_EQ(KindOf(With(frame, kIp, 0x46)), FrameKind::kOther);      // options
  EXPECT_EQ(KindOf(With(frame, kIp + 6, 0x20)), FrameKind::kOther);  // more fragments
  EXPECT_EQ(KindOf(With(frame, kIp + 7, 1)), FrameKind::kOther);     // a later fragment
  EXPECT_EQ(KindOf(With(frame, kIp + 9, 6)), FrameKind::kOther);     // TCP
  EXPECT_EQ(KindOf(With(frame, kUdp + 3, 53)), FrameKind::kOther);   // another port
  Frame bad_checksum = frame;
  bad_checksum[kIp + 10] ^= 1;
  EXPECT_EQ(KindOf(bad_checksum), FrameKind::kOther);
  Frame ipv6 = RoceSpec{.source = kFarIpv6, .destination = kOurIpv6}.Build();
  ipv6[kIp + 6] = 44;  // a fragment header
  EXPECT_EQ(KindOf(ipv6), FrameKind::kOther);
}

// Either address would be taken for that of an IPv4 host.
TEST(FrameClassifierTest, Ipv6PacketWithAnIpv4MappedAddressIsMalformed) {
  constexpr size_t kSource = kIp + 8;
  constexpr size_t kDestination = kSource + 16;
  const Frame ipv6 = RoceSpec{.source = kFarIpv6, .destination = kOurIpv6}.Build();
  ASSERT_EQ(KindOf(ipv6), FrameKind::kRoce);
  for (const size_t address : {kSource, kDestination}) {
    Frame mapped = ipv6;
    std::copy(kOurIpv4.bytes.begin(), kOurIpv4.bytes.end(), mapped.begin() + address);
    EXPECT_EQ(KindOf(mapped), FrameKind::kMalformed) << address;
  }
}

TEST(FrameClassifierTest, LengthsThatContradictEachOtherAreMalformed) {
  const Frame frame = RoceSpec{}.Build();
  const uint8_t ip_bytes = frame[kIp + 3];
  EXPECT_EQ(KindOf(With(frame, kIp + 3, ip_bytes + 1)), FrameKind::kMalformed);
  EXPECT_EQ(KindOf(With(frame, kIp + 3, ip_bytes - 1)), FrameKind::kMalformed);
  EXPECT_EQ(KindOf(With(frame, kIp + 3, 3)), FrameKind::kMalformed);
  EXPECT_EQ(KindOf(With(frame, kUdp + 5, frame[kUdp + 5] - 1)), FrameKind::kMalformed);
  Frame empty = With(frame, kIp + 3, 20);  // no room for UDP's own header
  empty[kUdp + 4] = empty[kUdp + 5] = 0;
  EXPECT_EQ(KindOf(empty), FrameKind::kMalformed);
}

TEST(FrameClassifierTest, PacketTooShortForItsTransportHeaderIsMalformed) {
  const Frame whole = RoceSpec{.payload = {}}.Build();  // BTH and ICRC
  ASSERT_EQ(KindOf(whole), FrameKind::kRoce);
  for (uint8_t udp_bytes = 0; udp_bytes < 8 + 12 + 4; ++udp_bytes) {
    Frame frame(whole.begin(), whole.begin() + kUdp + std::max<size_t>(udp_bytes, 8));
    frame[kUdp + 5] = udp_bytes;
    EXPECT_EQ(KindOf(With(frame, kIp + 3, 20 + udp_bytes)), FrameKind::kMalformed);
  }
}

TEST(FrameClassifierTest, PacketTooShortForItsOpcodeIsMalformed) {
  Frame frame = RoceSpec{.payload = {}}.Build();  // BTH and ICRC
  ASSERT_EQ(KindOf(frame), FrameKind::kRoce);
  frame[kBth] = kUdSendOnly;
  EXPECT_EQ(KindOf(frame), FrameKind::kMalformed);
  frame[kBth] = kRcAcknowledge;
  EXPECT_EQ(KindOf(frame), FrameKind::kMalformed);
}

TEST(FrameClassifierTest, AnotherTransportVersionIsMalformed) {
  Frame frame = RoceSpec{}.Build();
  frame[kBth + 1] |= 1;
  EXPECT_EQ(KindOf(frame), FrameKind::kMalformed);
}

// The frame would have an IPv4 source without the checks on IPv4.
TEST(FrameClassifierTest, Ipv6PacketWithIpv4AddressesIsMalformed) {
  Frame frame = RoceSpec{.source = kFarIpv6, .destination = kOurIpv6}.Build();
  std::copy(kOurIpv4.bytes.begin(), kOurIpv4.bytes.end(), &frame[kIp + 8]);
  EXPECT_EQ(KindOf(frame), FrameKind::kMalformed);
}

TEST(FrameClassifierTest, UnknownOpcodeIsLeftToItsReceiver) {
  Frame frame = RoceSpec{}.Build();
  frame[kBth] = 0x81;  // a congestion notification
  RoceHeaders headers;
  ASSERT_EQ(KindOf(frame, &headers), FrameKind::kRoce);
  EXPECT_FALSE(headers.opcode.has_value());
  EXPECT_EQ(headers.destination_qpn, QpOf(kAlice, 5));
}

TEST(FrameHeadTest, FrameIsWrittenWithTheHeadThatWasChecked) {
  for (const size_t bytes : {1u, 5u, 6u, 7u, 62u, 127u, 128u, 129u, 1'000u}) {
    Frame frame(bytes);
    for (size_t i = 0; i < bytes; ++i) frame[i] = static_cast<uint8_t>(i * 7);
    const FrameHead head(frame);
    Frame expected = frame;
    for (size_t i = 0; i < std::min(bytes, FrameHead::kBytes); ++i) frame[i] ^= 0xff;
    Frame out(bytes);
    head.WriteFrame(frame, out.data());
    EXPECT_EQ(out, expected) << bytes;
  }
}

class FrameCheckTest : public testing::Test {
 protected:
  FrameCheckTest() {
    EXPECT_EQ(table_.Declare(kAlice, {QpOf(kAlice, 5), {42}, kFarIpv4}), 0);
    EXPECT_EQ(table_.Declare(kBob, {QpOf(kBob, 5), {43}, kFarIpv4}), 0);
    EXPECT_EQ(table_.services().Add(kBob, ListenTo(kService)), 0);
  }

  SwitchDrop FromAlice(const Frame& frame, bool has_wire = true) {
    RoceHeaders headers;
    const FrameKind kind = KindOf(frame, &headers);
    EXPECT_EQ(kind, FrameKind::kRoce);
    return CheckFromProcess(headers, frame.size(), kAlice, table_, has_wire ? &wire_ : nullptr);
  }
  SwitchDrop FromAlice(const RoceSpec& spec) { return FromAlice(spec.Build()); }

  Delivery FromWire(const RoceSpec& spec) { return FromWire(spec.Build()); }
  Delivery FromWire(const Frame& frame) {
    RoceHeaders headers;
    EXPECT_EQ(KindOf(frame, &headers), FrameKind::kRoce);
    return FindReceiver(headers, table_, wire_);
  }

  ForwardingTable table_;
  const WireAddresses wire_{kOurMac, {kOurIpv4, kOurIpv6}};
};

TEST_F(FrameCheckTest, DeclaredConnectionsPass) {
  EXPECT_EQ(FromAlice(ToWire(kRcSendOnly)), SwitchDrop::kNone);
  EXPECT_EQ(FromAlice(ToWire(kRcAcknowledge)), SwitchDrop::kNone);
  EXPECT_EQ(FromAlice(ToWire(kUcWriteOnly)), SwitchDrop::kNone);
}

TEST_F(FrameCheckTest, UndeclaredDestinationIsDropped) {
  EXPECT_EQ(FromAlice(ToWire(kRcSendOnly, {41})), SwitchDrop::kNotDeclared);
  EXPECT_EQ(FromAlice(ToWire(kRcAcknowledge, {43})), SwitchDrop::kNotDeclared);  // Bob's
  RoceSpec other_host = ToWire(kUcWriteOnly);
  other_host.destination = Gid::FromIpv4({192, 0, 2, 3});
  EXPECT_EQ(FromAlice(other_host), SwitchDrop::kNotDeclared);
  table_.Forget(kAlice, QpOf(kAlice, 5));
  EXPECT_EQ(FromAlice(ToWire(kRcSendOnly)), SwitchDrop::kNotDeclared);
}

TEST_F(FrameCheckTest, SpoofedSourceIsDropped) {
  RoceSpec mac = ToWire(kRcSendOnly);
  mac.source_mac[5] ^= 1;
  EXPECT_EQ(FromAlice(mac), SwitchDrop::kForeignSource);
  RoceSpec ip = ToWire(kRcSendOnly);
  ip.source = Gid::FromIpv4({192, 0, 2, 9});
  EXPECT_EQ(FromAlice(ip), SwitchDrop::kForeignSource);
  RoceSpec ipv6 = DatagramToWire(QpOf(kAlice, 1));
  ipv6.source = Gid::LinkLocal(kOurMac);
  ipv6.destination = kFarIpv6;
  EXPECT_EQ(FromAlice(ipv6), SwitchDrop::kForeignSource);
  ipv6.source = kOurIpv6;
  EXPECT_EQ(FromAlice(ipv6), SwitchDrop::kNone);
}

TEST_F(FrameCheckTest, DatagramMayGoAnywhereFromOwnQueuePairs) {
  EXPECT_EQ(FromAlice(DatagramToWire(QpOf(kAlice, 0))), SwitchDrop::kNone);
  EXPECT_EQ(FromAlice(DatagramToWire(QpOf(kAlice, transport::kMaxQps - 1), {4'711})),
            SwitchDrop::kNone);
}

TEST_F(FrameCheckTest, DatagramFromAForeignQueuePairIsDropped) {
  EXPECT_EQ(FromAlice(DatagramToWire(QpOf(kBob, 5))), SwitchDrop::kForeignSource);
  EXPECT_EQ(FromAlice(DatagramToWire(QpOf(kAlice + 1, 0))), SwitchDrop::kForeignSource);
  EXPECT_EQ(FromAlice(DatagramToWire(QpOf(kAlice, 0), {0})), SwitchDrop::kNotDeclared);
  EXPECT_EQ(FromAlice(DatagramToWire(kManagementQpn)), SwitchDrop::kForeignSource);
  EXPECT_EQ(FromAlice(ToGroup(QpOf(kBob, 5))), SwitchDrop::kForeignSource);
}

TEST_F(FrameCheckTest, UnicastWithinTheHostIsDropped) {
  for (RoceSpec spec : {ToWire(kRcSendOnly), DatagramToWire(QpOf(kAlice, 1))}) {
    spec.destination = kOurIpv4;
    EXPECT_EQ(FromAlice(spec), SwitchDrop::kUnknownDestination);
  }
}

TEST_F(FrameCheckTest, GroupsTakeDatagramsToTheMulticastQpn) {
  EXPECT_EQ(FromAlice(ToGroup(QpOf(kAlice, 1))), SwitchDrop::kNone);
  EXPECT_EQ(FromAlice(ToGroup(QpOf(kAlice, 1), kIpv6Group)), SwitchDrop::kNone);
  RoceSpec wrong_qpn = ToGroup(QpOf(kAlice, 1));
  wrong_qpn.destination_qpn = {42};
  EXPECT_EQ(FromAlice(wrong_qpn), SwitchDrop::kMalformed);
  RoceSpec connected = ToGroup(QpOf(kAlice, 1));
  connected.opcode = kRcSendOnly;
  EXPECT_EQ(FromAlice(connected), SwitchDrop::kMalformed);
}

TEST_F(FrameCheckTest, EthernetAndIpDestinationHaveToAgree) {
  Frame to_one = ToWire(kRcSendOnly).Build();
  to_one[0] = 0xff;  // a group of Ethernet
  EXPECT_EQ(FromAlice(to_one), SwitchDrop::kMalformed);
  Frame to_group = ToGroup(QpOf(kAlice, 1)).Build();
  to_group[5] ^= 1;  // another group
  EXPECT_EQ(FromAlice(to_group), SwitchDrop::kMalformed);
}

TEST_F(FrameCheckTest, BytesBehindThePacketAndUnknownOpcodesAreMalformed) {
  Frame frame = ToWire(kRcSendOnly).Build();
  ASSERT_EQ(FromAlice(frame), SwitchDrop::kNone);
  frame.push_back(0);
  EXPECT_EQ(FromAlice(frame), SwitchDrop::kMalformed);
  frame.pop_back();
  frame[kBth] = 0x81;
  EXPECT_EQ(FromAlice(frame), SwitchDrop::kMalformed);
}

TEST_F(FrameCheckTest, WithoutAWireOnlyGroupsAreReached) {
  RoceSpec to_group = ToGroup(QpOf(kAlice, 1));
  to_group.source = Gid::FromIpv4({10, 1, 2, 3});  // an address of its own
  to_group.source_mac = {2, 0x75, 10, 1, 2, 3};
  EXPECT_EQ(FromAlice(to_group.Build(), /*has_wire=*/false), SwitchDrop::kNone);
  EXPECT_EQ(FromAlice(ToGroup(QpOf(kBob, 1)).Build(), false), SwitchDrop::kForeignSource);
  EXPECT_EQ(FromAlice(ToWire(kRcSendOnly).Build(), false), SwitchDrop::kUnknownDestination);
  EXPECT_EQ(FromAlice(DatagramToWire(QpOf(kAlice, 1)).Build(), false),
            SwitchDrop::kUnknownDestination);
}

TEST_F(FrameCheckTest, ManagementMessagesOfOwnConnectionsPass) {
  const uint32_t own = CommunicationId(kAlice, 9);
  const RoceSpec base = ToWire(kUdSendOnly);
  const MadSpec request{.attribute = Mad::kReq, .first_id = own, .request_service = 99};
  const MadSpec reply{.attribute = Mad::kRep, .first_id = own, .second_id = 0xdead'beef};
  EXPECT_EQ(FromAlice(Management(request, base)), SwitchDrop::kNone);
  EXPECT_EQ(FromAlice(Management(reply, base)), SwitchDrop::kNone);
}

TEST_F(FrameCheckTest, SpoofedManagementMessagesAreDropped) {
  const RoceSpec base = ToWire(kUdSendOnly);
  for (const Mad attribute : {Mad::kReq, Mad::kRej, Mad::kDreq, Mad::kSidrReq}) {
    for (const uint32_t id : {CommunicationId(kBob, 9), 0u}) {
      const MadSpec mad{.attribute = attribute, .first_id = id, .second_id = 1};
      EXPECT_EQ(FromAlice(Management(mad, base)), SwitchDrop::kForeignSource);
    }
  }
  RoceSpec wrong_source = Management({.first_id = CommunicationId(kAlice, 9)}, base);
  wrong_source.source_qpn = QpOf(kAlice, 1);
  EXPECT_EQ(FromAlice(wrong_source), SwitchDrop::kForeignSource);
}

TEST_F(FrameCheckTest, ServiceResolutionReachesTheListener) {
  const MadSpec answer{.attribute = Mad::kSidrRep, .first_id = 77, .answer_service = kService};
  const RoceSpec spec = Management(answer, ToWire(kUdSendOnly));
  EXPECT_EQ(FromAlice(spec), SwitchDrop::kForeignSource);  // Bob listens
  table_.services().Remove(kBob, ListenTo(kService).claim);
  EXPECT_EQ(FromAlice(spec), SwitchDrop::kForeignSource);
  EXPECT_EQ(table_.services().Add(kAlice, ListenTo(kService)), 0);
  EXPECT_EQ(FromAlice(spec), SwitchDrop::kNone);
}

TEST_F(FrameCheckTest, InvalidConnectionManagementIsDropped) {
  RoceSpec spec = Management({.first_id = CommunicationId(kAlice, 9)}, ToWire(kUdSendOnly));
  spec.payload[1] = 0x03;  // subnet administration
  EXPECT_EQ(FromAlice(spec), SwitchDrop::kMalformed);
  RoceSpec short_mad = Management({.first_id = CommunicationId(kAlice, 9)}, ToWire(kUdSendOnly));
  short_mad.payload.resize(252);
  EXPECT_EQ(FromAlice(short_mad), SwitchDrop::kMalformed);
  RoceSpec immediate = Management({.first_id = CommunicationId(kAlice, 9)}, ToWire(kUdSendOnly));
  immediate.opcode = kUdSendOnlyImmediate;
  EXPECT_EQ(FromAlice(immediate), SwitchDrop::kMalformed);
  // As if the immediate data were the first bytes of the MAD.
  const std::vector<uint8_t> mad = immediate.payload;
  immediate.payload.assign(mad.begin() + 4, mad.end());
  Frame frame = immediate.Build();
  std::copy_n(mad.begin(), 4, frame.begin() + kBth + 12 + 8);
  EXPECT_EQ(FromAlice(frame), SwitchDrop::kMalformed);
}

TEST_F(FrameCheckTest, FramesFromTheWireGoToTheBlockOfTheirQueuePair) {
  EXPECT_EQ(FromWire(RoceSpec{}).block, kAlice);
  EXPECT_EQ(FromWire(RoceSpec{.destination_qpn = QpOf(kBob, 0)}).block, kBob);
  Frame unknown_opcode = RoceSpec{}.Build();
  unknown_opcode[kBth] = 0x81;
  EXPECT_EQ(FromWire(unknown_opcode).block, kAlice);
}

TEST_F(FrameCheckTest, FramesWithoutReceiverAreDropped) {
  for (const Qpn qpn : {Qpn{0}, Qpn{2}, QpOf(0, 100), transport::kMulticastQpn}) {
    EXPECT_EQ(FromWire(RoceSpec{.destination_qpn = qpn}).drop, SwitchDrop::kUnknownDestination);
  }
  const RoceSpec other_host{.destination = Gid::FromIpv4({192, 0, 2, 9})};
  EXPECT_EQ(FromWire(other_host).drop, SwitchDrop::kUnknownDestination);
}

TEST_F(FrameCheckTest, FrameFromTheWireWithOurSourceIsDropped) {
  EXPECT_EQ(FromWire(RoceSpec{.source = kOurIpv4}).drop, SwitchDrop::kForeignSource);
  EXPECT_EQ(FromWire(ToGroup({77})).drop, SwitchDrop::kForeignSource);  // our own came back
}

TEST_F(FrameCheckTest, GroupDatagramsFromTheWireGoToTheGroup) {
  RoceSpec spec = ToGroup({77});
  spec.source = kFarIpv4;
  const Delivery delivery = FromWire(spec);
  EXPECT_EQ(delivery.drop, SwitchDrop::kNone);
  EXPECT_EQ(delivery.block, control::kSwitchBlock);
  spec.destination_qpn = QpOf(kAlice, 5);
  EXPECT_EQ(FromWire(spec).drop, SwitchDrop::kMalformed);
}

TEST_F(FrameCheckTest, RequestsFromTheWireReachTheListener) {
  for (const Mad attribute : {Mad::kReq, Mad::kSidrReq}) {
    MadSpec mad{.attribute = attribute,
                .first_id = CommunicationId(kAlice, 1),
                .request_service = kService};
    EXPECT_EQ(FromWire(Management(mad, RoceSpec{})).block, kBob);
    mad.request_service = kService + 1;
    EXPECT_EQ(FromWire(Management(mad, RoceSpec{})).drop, SwitchDrop::kNone);
    EXPECT_EQ(FromWire(Management(mad, RoceSpec{})).block, control::kSwitchBlock) << "not known";
  }
}

TEST_F(FrameCheckTest, AnswersFromTheWireGoToTheBlockOfTheCommunicationId) {
  const MadSpec reply{
      .attribute = Mad::kRep, .first_id = 5, .second_id = CommunicationId(kAlice, 0x3f'ffff)};
  EXPECT_EQ(FromWire(Management(reply, RoceSpec{})).block, kAlice);
  const MadSpec resolution{.attribute = Mad::kSidrRep,
                           .first_id = CommunicationId(kAlice, 0),
                           .second_id = CommunicationId(kBob, 0),
                           .answer_service = kService};
  EXPECT_EQ(FromWire(Management(resolution, RoceSpec{})).block, kAlice);
  const MadSpec unknown{.attribute = Mad::kRej, .first_id = 5, .second_id = 0};
  EXPECT_EQ(FromWire(Management(unknown, RoceSpec{})).block, control::kSwitchBlock);
  RoceSpec other_class = Management(reply, RoceSpec{});
  other_class.payload[1] = 0x03;
  EXPECT_EQ(FromWire(other_class).drop, SwitchDrop::kMalformed);
}

TEST(SwitchDropTest, EveryReasonHasItsCounter) {
  SwitchCounters counters;
  Count(SwitchDrop::kNone, &counters);
  const auto dropped = [&counters] {
    return std::vector<uint64_t>{counters.dropped_unknown_destination,
                                 counters.dropped_not_declared, counters.dropped_foreign_source,
                                 counters.dropped_malformed, counters.dropped_no_room};
  };
  EXPECT_EQ(dropped(), std::vector<uint64_t>(5, 0));
  const SwitchDrop reasons[] = {SwitchDrop::kUnknownDestination, SwitchDrop::kNotDeclared,
                                SwitchDrop::kForeignSource, SwitchDrop::kMalformed,
                                SwitchDrop::kNoRoom};
  std::vector<uint64_t> expected(5, 0);
  for (size_t i = 0; i < 5; ++i) {
    Count(reasons[i], &counters);
    expected[i] = 1;
    EXPECT_EQ(dropped(), expected);
  }
}

}  // namespace
}  // namespace uroce::nic
