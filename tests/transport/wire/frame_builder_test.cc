#include "transport/wire/frame_builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "tests/transport/wire/wire_test_util.h"
#include "transport/wire/bare_frame.h"
#include "transport/wire/byte_order.h"
#include "transport/wire/encapsulation.h"
#include "transport/wire/printer.h"

namespace uroce::transport {
namespace {

// The kernel's rule: the upper six of the twenty bits, folded into the lower fourteen.
TEST(UdpSourcePortTest, FlowLabelDecidesWhenThereIsOne) {
  EXPECT_EQ(0xc001, UdpSourcePort(0x00001, Qpn{17}, Qpn{18}));
  EXPECT_EQ(0xffff, UdpSourcePort(0x03fff, Qpn{17}, Qpn{18}));
  EXPECT_EQ(0xc001, UdpSourcePort(0x04000, Qpn{17}, Qpn{18}));
  EXPECT_EQ(0xc000, UdpSourcePort(0x04001, Qpn{17}, Qpn{18}));
  EXPECT_EQ(0xc03f, UdpSourcePort(0xfc000, Qpn{17}, Qpn{18}));
  EXPECT_EQ(0xc001, UdpSourcePort(0xf00001, Qpn{17}, Qpn{18}));  // 20 bits count
}

// The kernel's rule: the product of the QPNs, folded over itself at 20 and 40 bits.
// IBA A17.3.2.1.
TEST(UdpSourcePortTest, QpnsDecideWithoutAFlowLabel) {
  EXPECT_EQ(0xc000 | (17 * 18), UdpSourcePort(0, Qpn{17}, Qpn{18}));
  EXPECT_EQ(UdpSourcePort(0, Qpn{0x123456}, Qpn{0xabcdef}),
            UdpSourcePort(0, Qpn{0xabcdef}, Qpn{0x123456}));
  // 0xffffff^2 = 0xfffffe000001; ^ itself >> 20 = 0xfffff1ffffe1; ^ itself >> 40 = 0xfffff1ffff1e.
  EXPECT_EQ(0xc000 | (0x3f1e ^ 0x3f), UdpSourcePort(0, Qpn{0xffffff}, Qpn{0xffffff}));
  // Captured from rdma_rxe between QPs 17 and 17, and 31 and 32.
  EXPECT_EQ(49441, UdpSourcePort(0, Qpn{17}, Qpn{17}));
  EXPECT_EQ(50144, UdpSourcePort(0, Qpn{31}, Qpn{32}));
}

TEST(UdpSourcePortTest, IsAlwaysInTheDynamicRange) {
  std::set<uint16_t> ports;
  for (uint32_t qpn = 0x100; qpn < 0x1100; ++qpn) {
    const uint16_t port = UdpSourcePort(0, Qpn{qpn}, Qpn{qpn + 7});
    EXPECT_GE(port, 0xc000);
    ports.insert(port);
  }
  EXPECT_GT(ports.size(), 2'000u);  // the port is there for entropy
}

// IBA CA17-7, CA17-11, CA17-12, CA17-20, CA17-21.
TEST(FrameBuilderTest, KnownIpv4Frame) {
  AddressVector address;
  address.destination_gid = Gid::FromIpv4({10, 0, 0, 2});
  address.destination_mac = {2, 0, 0, 0, 0, 2};
  address.hop_limit = 64;
  const FrameBuilder builder({2, 0, 0, 0, 0, 1}, Gid::FromIpv4({10, 0, 0, 1}), address, 0xc000);
  TransportHeaders headers;
  headers.opcode = *ParseOpcode(0x04);
  headers.destination_qpn = Qpn{0x11};
  headers.psn = Psn(0x1234);
  headers.ack_request = true;
  const std::array<uint8_t, 5> payload = {'h', 'e', 'l', 'l', 'o'};
  const PayloadPiece piece{payload.data(), payload.size()};
  std::vector<uint8_t> frame(kMaxFrameBytes, 0xee);
  frame.resize(builder.Emit(headers, {&piece, 1}, frame));
  const std::vector<uint8_t> expected = FromHex(
      "020000000002"
      "020000000001"
      "0800"  // Ethernet
      "45000034000040004011"
      "26b7"
      "0a000001"
      "0a000002"  // IPv4 with DF
      "c000"
      "12b7"
      "0020"
      "0000"  // UDP
      "0470ffff"
      "00000011"
      "80001234"  // BTH: MigReq, three pad bytes
      "68656c6c6f"
      "000000");
  ASSERT_EQ(expected.size() + 4, frame.size());
  EXPECT_EQ(expected, std::vector<uint8_t>(frame.begin(), frame.end() - 4));
}

// The frames of a connection are those that Emit builds of all their headers.
class ConnectionFrameTest : public testing::TestWithParam<bool> {
 protected:
  using Frame = std::vector<uint8_t>;

  ConnectionFrameTest() {
    AddressVector address;
    address.destination_gid =
        GetParam() ? Gid::LinkLocal({2, 0, 0, 0, 0, 2}) : Gid::FromIpv4({10, 0, 0, 2});
    const Gid source =
        GetParam() ? Gid::LinkLocal({2, 0, 0, 0, 0, 1}) : Gid::FromIpv4({10, 0, 0, 1});
    address.traffic_class = 0x6a;
    builder_ = FrameBuilder({2, 0, 0, 0, 0, 1}, source, address, 0xc123);
    for (size_t i = 0; i < data_.size(); ++i) data_[i] = static_cast<uint8_t>(i * 7 + 1);
  }

  // `emit(payload, room)` builds a frame of this opcode.
  template <class Emit>
  void ExpectSame(uint8_t opcode, size_t payload_bytes, TransportHeaders headers, Emit emit) {
    headers.opcode = *ParseOpcode(opcode);
    const PayloadPiece payload{data_.data(), payload_bytes};
    for (const IcrcUse icrc : {IcrcUse::kCarried, IcrcUse::kWaived}) {
      Frame expected(kMaxFrameBytes, 0x5a);
      Frame built(kMaxFrameBytes, 0x5a);
      const size_t bytes = builder_.Emit(headers, {&payload, 1}, FrameRoom(expected, icrc));
      ASSERT_NE(bytes, 0u);
      EXPECT_EQ(emit(payload, FrameRoom(built, icrc)), bytes);
      EXPECT_EQ(built, expected) << int{opcode} << ", " << payload_bytes << " bytes";
      ExpectSamePacket(std::span(expected).first(bytes), icrc,
                       [&](const FrameRoom& room) { return emit(payload, room); });
    }
    ExpectSameHeaderless(payload, headers, emit);
  }
  // Builds in a room for a packet: it is `expected` with the headers of its flow, and vice versa.
  template <class Emit>
  void ExpectSamePacket(std::span<const uint8_t> expected, IcrcUse icrc, Emit emit) {
    Frame built(kMaxFrameBytes, 0x5a), copied(kMaxFrameBytes, 0x5a), frame(kMaxFrameBytes);
    Flow flow, read_flow;
    FrameRoom room(built, icrc), copy(copied, icrc);
    room.flow = &flow;
    copy.flow = &read_flow;
    ASSERT_EQ(emit(room), expected.size());
    EXPECT_TRUE(std::ranges::equal(BuiltFrame(room, expected.size(), frame), expected));
    CopyFrame(expected, copy);
    EXPECT_EQ(read_flow, flow);
    EXPECT_EQ(copied, built);
  }
  // Builds without network headers and ICRC. The pad is zero, whatever the buffer held before.
  template <class Emit>
  void ExpectSameHeaderless(const PayloadPiece& payload, const TransportHeaders& headers,
                            Emit emit) {
    Frame whole(kMaxFrameBytes), built(kMaxFrameBytes, 0x5a);
    whole.resize(builder_.Emit(headers, {&payload, 1}, FrameRoom(whole, IcrcUse::kWaived)));
    const long network_bytes = GetParam() ? 14 + 40 + 8 : 14 + 20 + 8;
    Frame expected(BareFrame::kMarkBytes);
    Store32(BareFrame::kMark, expected.data());
    expected.insert(expected.end(), whole.begin() + network_bytes, whole.end() - kIcrcBytes);
    built.resize(emit(payload, FrameRoom(built, IcrcUse::kWaivedWithHeaders)));
    EXPECT_EQ(built, expected) << payload.length << " bytes";
  }

  FrameBuilder builder_;
  std::array<uint8_t, 4096> data_;
};

TEST_P(ConnectionFrameTest, IsThatOfAllHeaders) {
  TransportHeaders headers;
  headers.destination_qpn = Qpn{0xabcdef};
  headers.pkey = 0x8123;
  headers.migration_request = false;
  builder_.SetConnection({.destination_qpn = headers.destination_qpn,
                          .pkey = headers.pkey,
                          .migration_request = headers.migration_request,
                          .may_be_headerless = true});
  headers.psn = Psn(0xfedcba);
  headers.reth = {0x1122'3344'5566'7788, RKey{0x99aa'bbcc}, 0xddee'ff01};
  headers.aeth = {Syndrome::Ack(17), 0x313233};
  for (const bool flag : {false, true}) {
    headers.solicited = flag;
    headers.ack_request = !flag;
    PacketHeaders packet{0, headers.psn, flag, !flag};
    for (const size_t bytes : {0, 1, 2, 3, 4, 5, 64, 4096}) {
      for (const uint8_t opcode : {kRcSendFirst, kRcSendMiddle, kRcSendLast, kRcSendOnly,
                                   kRcWriteMiddle, kRcWriteLast, kRcReadResponseMiddle}) {
        packet.opcode = opcode;
        ExpectSame(opcode, bytes, headers,
                   [&](auto payload, auto room) { return builder_.Emit(packet, payload, room); });
      }
      for (const uint8_t opcode : {kRcWriteFirst, kRcWriteOnly}) {
        packet.opcode = opcode;
        ExpectSame(opcode, bytes, headers, [&](auto payload, auto room) {
          return builder_.Emit(packet, headers.reth, payload, room);
        });
      }
      for (const uint8_t opcode :
           {kRcReadResponseFirst, kRcReadResponseLast, kRcReadResponseOnly}) {
        packet.opcode = opcode;
        ExpectSame(opcode, bytes, headers, [&](auto payload, auto room) {
          return builder_.Emit(packet, headers.aeth, payload, room);
        });
      }
    }
  }
  headers.solicited = headers.ack_request = false;
  ExpectSame(kRcAcknowledge, 0, headers, [&](auto, auto room) {
    const PacketHeaders packet{kRcAcknowledge, headers.psn};
    return builder_.Emit(packet, headers.aeth, PayloadPiece(), room);
  });
}

TEST_P(ConnectionFrameTest, HasTheServiceOfTheConnection) {
  for (const Service service : {Service::kReliableConnection, Service::kUnreliableConnection,
                                Service::kExtendedReliableConnection}) {
    builder_.SetConnection({.service = service, .destination_qpn = Qpn{0xabcdef}});
    Frame built(kMaxFrameBytes);
    const PacketHeaders packet{kRcReadResponseMiddle, Psn(7)};
    built.resize(builder_.Emit(packet, PayloadPiece(), FrameRoom(built, IcrcUse::kWaived)));
    const uint8_t opcode = built[GetParam() ? 14 + 40 + 8 : 14 + 20 + 8];
    EXPECT_EQ(opcode >> 5, static_cast<int>(service));
    EXPECT_EQ(opcode & 0x1f, kRcReadResponseMiddle);
  }
}

// A path that is no connection's, and one whose packets need their network headers.
TEST_P(ConnectionFrameTest, HasNetworkHeadersUnlessItMayLackThem) {
  Frame frame(kMaxFrameBytes);
  const FrameRoom room(frame, IcrcUse::kWaivedWithHeaders);
  EXPECT_NE(builder_.Emit(TransportHeaders(), {}, room), 0u);
  EXPECT_FALSE(IsBareFrame(frame));
  builder_.SetConnection({.destination_qpn = Qpn{0xabcdef}});
  EXPECT_NE(builder_.Emit({kRcSendOnly, Psn(7)}, PayloadPiece(), room), 0u);
  EXPECT_FALSE(IsBareFrame(frame));
  builder_.SetConnection({.destination_qpn = Qpn{0xabcdef}, .may_be_headerless = true});
  EXPECT_NE(builder_.Emit(TransportHeaders(), {}, room), 0u);
  EXPECT_TRUE(IsBareFrame(frame));
}

INSTANTIATE_TEST_SUITE_P(Ip, ConnectionFrameTest, testing::Bool(),
                         [](const auto& ip) { return ip.param ? "v6" : "v4"; });

TEST(PrinterTest, Ipv6AddressesAsInRfc5952) {
  const auto text = [](std::string_view hex) {
    Gid gid;
    const std::vector<uint8_t> bytes = FromHex(hex);
    std::copy(bytes.begin(), bytes.end(), gid.bytes.begin());
    return ToString(gid);
  };
  EXPECT_EQ("::", text("00000000000000000000000000000000"));
  EXPECT_EQ("::1", text("00000000000000000000000000000001"));
  EXPECT_EQ("fe80::", text("fe800000000000000000000000000000"));
  EXPECT_EQ("2001:db8::1:0:0:1", text("20010db8000000000001000000000001"));
  EXPECT_EQ("2001:db8:0:1:1:1:1:1", text("20010db8000000010001000100010001"));
  EXPECT_EQ("1:2:3:4:5:6:7:8", text("00010002000300040005000600070008"));
  EXPECT_EQ("10.1.2.3", text("00000000000000000000ffff0a010203"));
}

TEST(PrinterTest, OneLineAPacket) {
  Packet packet;
  packet.flow.source = Gid::FromIpv4({10, 0, 0, 1});
  packet.flow.destination = Gid::FromIpv4({10, 0, 0, 2});
  packet.opcode = *ParseOpcode(0x06);
  packet.destination_qpn = Qpn{0x11};
  packet.psn = Psn(1234);
  packet.reth = {.virtual_address = 0x1000, .rkey = RKey{0x100}, .dma_length = 8192};
  const std::vector<uint8_t> payload(4096);
  packet.payload = payload;
  EXPECT_EQ(
      "10.0.0.1 > 10.0.0.2 RC_WRITE_FIRST qpn 0x11 psn 1234 reth(va=0x1000 rkey=0x100 len=8192) "
      "4096B",
      ToString(packet));

  packet.opcode = *ParseOpcode(0x17);
  packet.solicited = packet.forward_congestion = packet.backward_congestion = true;
  packet.pkey = 0x8001;
  packet.invalidate_rkey = RKey{0xabc};
  packet.payload = {};
  EXPECT_EQ(
      "10.0.0.1 > 10.0.0.2 RC_SEND_ONLY_INV qpn 0x11 psn 1234 solicited fecn becn pkey 0x8001 "
      "invalidate=0xabc 0B",
      ToString(packet));
}

}  // namespace
}  // namespace uroce::transport
