// The short way for packets of connections gives the result of ParseFrame, or leaves them to it.

#include "transport/wire/packet_view.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/transport/wire/both_ways.h"
#include "transport/wire/byte_order.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/frame_builder.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/ipv6.h"

namespace uroce::transport {
namespace {

constexpr MacAddress kOurs{2, 0, 0, 0, 0, 1};
constexpr MacAddress kPeers{2, 0, 0, 0, 0, 2};
constexpr Qpn kQpn{0xabcdef};

class PacketViewTest : public testing::TestWithParam<bool> {
 protected:
  std::vector<uint8_t> Frame(uint8_t bth_opcode, size_t payload_bytes) const {
    AddressVector address;
    address.destination_gid = own_;
    address.destination_mac = kOurs;
    address.traffic_class = 0x6a;
    const FrameBuilder builder(kPeers, peer_, address, 0xc123);
    TransportHeaders headers;
    headers.opcode = *ParseOpcode(bth_opcode);
    headers.solicited = true;
    headers.ack_request = true;
    headers.destination_qpn = kQpn;
    headers.psn = Psn(0xfedcba);
    headers.reth = {0x1122'3344'5566'7788, RKey{0x99aa'bbcc}, 0xddee'ff01};
    headers.aeth = {Syndrome::Nak(NakCode::kRemoteAccessError), 0x313233};
    const std::vector<uint8_t> payload(payload_bytes, 0x5a);
    const PayloadPiece piece{payload.data(), headers.opcode.HasPayload() ? payload_bytes : 0};
    std::vector<uint8_t> frame(kMaxFrameBytes);
    frame.resize(builder.Emit(headers, {&piece, 1}, frame));
    return frame;
  }

  static void SetChecksum(std::vector<uint8_t>& frame) {
    if (!GetParam()) CorrectIpv4Checksum(&frame[EthernetHeader::kBytes]);
  }

  // Sets the lengths in the IP and UDP headers.
  static void SetUdpBytes(uint16_t bytes, std::vector<uint8_t>& frame) {
    uint8_t* const ip = &frame[EthernetHeader::kBytes];
    const size_t ip_bytes = GetParam() ? Ipv6Header::kBytes : Ipv4Header::kBytes;
    const size_t total_bytes = GetParam() ? bytes : ip_bytes + bytes;
    Store16(static_cast<uint16_t>(total_bytes), ip + (GetParam() ? 4 : 2));
    Store16(bytes, ip + ip_bytes + 4);
    SetChecksum(frame);
  }

  const Gid peer_ = GetParam() ? Gid::LinkLocal(kPeers) : Gid::FromIpv4({10, 0, 0, 2});
  const Gid own_ = GetParam() ? Gid::LinkLocal(kOurs) : Gid::FromIpv4({10, 0, 0, 1});
};

TEST_P(PacketViewTest, EveryOpcodeAndPadding) {
  for (int code = 0; code < 256; ++code) {
    const auto opcode = ParseOpcode(static_cast<uint8_t>(code));
    if (!opcode) continue;
    for (const size_t bytes : {0, 1, 2, 3, 4, 64, 4096}) {
      std::vector<uint8_t> frame = Frame(static_cast<uint8_t>(code), bytes);
      Packet packet;
      EXPECT_EQ(ParseFrame(frame, packet), DropReason::kNone);
      EXPECT_TRUE(BothWaysAgree(frame)) << code << ", " << bytes << " bytes";
      frame.resize(frame.size() + 5);  // Ethernet padding
      EXPECT_TRUE(BothWaysAgree(frame)) << code << ", " << bytes << " bytes";
    }
  }
}

// A WRITE, a SEND, an ACK, and an opcode whose headers are read one by one.
TEST_P(PacketViewTest, EveryBitAndEveryLength) {
  for (const int code : {0x0a, 0x04, 0x11, 0x0b}) {
    const std::vector<uint8_t> right = Frame(static_cast<uint8_t>(code), 5);
    for (size_t bit = 0; bit < 8 * right.size(); ++bit) {
      std::vector<uint8_t> frame = right;
      frame[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
      EXPECT_TRUE(BothWaysAgree(frame)) << "opcode " << code << ", bit " << bit;
      EXPECT_TRUE(IsStrippedAsAlone(right, frame)) << "opcode " << code << ", bit " << bit;
    }
    for (size_t bytes = 0; bytes < right.size(); ++bytes) {
      // In memory of its own, so that ASan sees a read past the end.
      const std::vector<uint8_t> frame(right.begin(),
                                       right.begin() + static_cast<ptrdiff_t>(bytes));
      EXPECT_TRUE(BothWaysAgree(frame)) << "opcode " << code << ", " << bytes << " bytes";
      EXPECT_TRUE(IsStrippedAsAlone(right, frame)) << "opcode " << code << ", " << bytes;
    }
  }
}

// Wrong bits and lengths that no checksum reveals: the IP header's is right, and the ICRC is not
// always checked.
TEST_P(PacketViewTest, EveryBitAndEveryLengthWithARightChecksum) {
  for (const int code : {0x0a, 0x04, 0x11, 0x0b}) {
    for (const size_t payload_bytes : {0, 5}) {
      const std::vector<uint8_t> right = Frame(static_cast<uint8_t>(code), payload_bytes);
      for (size_t bit = 0; bit < 8 * right.size(); ++bit) {
        std::vector<uint8_t> frame = right;
        frame[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
        SetChecksum(frame);
        EXPECT_TRUE(BothWaysAgree(frame)) << "opcode " << code << ", bit " << bit;
        EXPECT_TRUE(IsStrippedAsAlone(right, frame)) << "opcode " << code << ", bit " << bit;
      }
      for (uint16_t udp_bytes = 0; udp_bytes <= right.size(); ++udp_bytes) {
        std::vector<uint8_t> frame = right;
        SetUdpBytes(udp_bytes, frame);
        EXPECT_TRUE(BothWaysAgree(frame)) << "opcode " << code << ", UDP of " << udp_bytes;
        EXPECT_TRUE(IsStrippedAsAlone(right, frame)) << "opcode " << code << ", " << udp_bytes;
      }
    }
  }
}

// A frame of zeros is not like the last one before there is any.
TEST_P(PacketViewTest, FirstFrameIsLikeNoOther) {
  for (const size_t ip_length_at : {2, 4}) {
    std::vector<uint8_t> zeros(100);
    Store16(24, &zeros[EthernetHeader::kBytes + Ipv4Header::kBytes + 4]);
    Store16(44, &zeros[EthernetHeader::kBytes + ip_length_at]);
    CorrectIpv4Checksum(&zeros[EthernetHeader::kBytes]);
    Packet packet;
    EXPECT_EQ(ParseFrame(zeros, packet, IcrcUse::kWaived), DropReason::kNotIp);
    EXPECT_TRUE(IsStrippedAsAlone(zeros, zeros));
  }
}

INSTANTIATE_TEST_SUITE_P(Ip, PacketViewTest, testing::Bool(),
                         [](const auto& ip) { return ip.param ? "v6" : "v4"; });

}  // namespace
}  // namespace uroce::transport
