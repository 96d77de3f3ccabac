#include "transport/wire/frame_parser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/transport/wire/wire_test_util.h"
#include "transport/wire/byte_order.h"
#include "transport/wire/frame_builder.h"
#include "transport/wire/icrc.h"
#include "transport/wire/ipv4.h"

namespace uroce::transport {
namespace {

constexpr MacAddress kMac{0x02, 0, 0, 0, 0, 1};
constexpr uint8_t kSendOnly = 0x04;
constexpr uint8_t kAcknowledge = 0x11;

std::vector<uint8_t> GoodFrame(bool ipv6, uint8_t bth_opcode = kSendOnly, size_t bytes = 10) {
  AddressVector address;
  address.destination_gid = ipv6 ? Gid::LinkLocal(kMac) : Gid::FromIpv4({10, 0, 0, 2});
  const Gid source = ipv6 ? Gid::LinkLocal({}) : Gid::FromIpv4({10, 0, 0, 1});
  const FrameBuilder builder({}, source, address, 0xc000);
  TransportHeaders headers;
  headers.opcode = *ParseOpcode(bth_opcode);
  const std::vector<uint8_t> payload(bytes, 0x5a);
  const PayloadPiece piece{payload.data(), payload.size()};
  std::vector<uint8_t> frame(kMaxFrameBytes + bytes);
  frame.resize(builder.Emit(headers, {&piece, 1}, frame));
  return frame;
}

// Corrects the checksums after a change, so that only the change itself can be noticed.
void Reseal(std::vector<uint8_t>& frame) {
  const bool ipv6 = IsIpv6(frame);
  if (!ipv6) {
    uint8_t* ip = frame.data() + kIpAt;
    Store16(0, ip + 10);
    uint32_t sum = 0;
    for (size_t i = 0; i < 20; i += 2) sum += Load16(ip + i);
    while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
    Store16(static_cast<uint16_t>(~sum), ip + 10);
  }
  const size_t icrc_at = frame.size() - kIcrcBytes;
  EmitIcrc(StartIcrc(ipv6 ? IpVersion::kIpv6 : IpVersion::kIpv4, frame.data(), icrc_at),
           frame.data() + icrc_at);
}

// Changes the length fields of IP and UDP by the same number of bytes.
void AddToLengths(std::vector<uint8_t>& frame, int bytes) {
  const auto add = [&](size_t at) {
    Store16(static_cast<uint16_t>(Load16(frame.data() + at) + bytes), frame.data() + at);
  };
  add(kIpAt + (IsIpv6(frame) ? 4 : 2));
  add(UdpAt(frame) + 4);
}

DropReason Parse(const std::vector<uint8_t>& frame) {
  // A copy of exactly the frame's size, so that ASan sees a read past the end.
  const std::vector<uint8_t> exact(frame);
  Packet packet;
  return ParseFrame(exact, packet);
}

class FrameParserTest : public testing::TestWithParam<bool> {
 protected:
  bool ipv6() const { return GetParam(); }
  uint8_t& Ip(size_t offset) { return frame_[kIpAt + offset]; }
  uint8_t& Udp(size_t offset) { return frame_[UdpAt(frame_) + offset]; }
  uint8_t& Bth(size_t offset) { return frame_[BthAt(frame_) + offset]; }
  DropReason ParseResealed() {
    Reseal(frame_);
    return Parse(frame_);
  }

  std::vector<uint8_t> frame_ = GoodFrame(GetParam());
};

TEST_P(FrameParserTest, GoodFrameIsAccepted) {
  EXPECT_EQ(DropReason::kNone, Parse(frame_));
  EXPECT_EQ(DropReason::kNone, ParseResealed());
}

TEST_P(FrameParserTest, TruncatedAtEveryLengthIsDropped) {
  for (const uint8_t opcode : {kSendOnly, uint8_t{0x13}}) {
    const std::vector<uint8_t> whole = GoodFrame(ipv6(), opcode, opcode == kSendOnly ? 10 : 0);
    for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
      const std::vector<uint8_t> cut(whole.begin(), whole.begin() + static_cast<long>(bytes));
      // Once the IP header is whole, its length says that bytes are missing.
      const DropReason expected =
          bytes < UdpAt(whole) ? DropReason::kTooShort : DropReason::kBadIpHeader;
      EXPECT_EQ(expected, Parse(cut)) << bytes << " bytes";
    }
  }
}

// The IP packet itself ends at every offset inside the headers.
TEST_P(FrameParserTest, PacketThatEndsInsideItsHeadersIsDropped) {
  const std::vector<uint8_t> whole = GoodFrame(ipv6(), 0x13, 0);  // the largest extension header
  for (size_t bytes = UdpAt(whole); bytes < whole.size(); ++bytes) {
    frame_ = whole;
    AddToLengths(frame_, -static_cast<int>(whole.size() - bytes));
    Reseal(frame_);
    EXPECT_EQ(DropReason::kTooShort, Parse(frame_)) << bytes << " bytes";
  }
}

TEST_P(FrameParserTest, EthernetPaddingIsIgnored) {
  frame_.insert(frame_.end(), 20, 0xee);
  Packet packet;
  ASSERT_EQ(DropReason::kNone, ParseFrame(frame_, packet));
  EXPECT_EQ(10u, packet.payload.size());
}

TEST_P(FrameParserTest, OtherEtherTypesAreNotIp) {
  Store16(0x0806, frame_.data() + 12);  // ARP
  EXPECT_EQ(DropReason::kNotIp, Parse(frame_));
  Store16(0x8100, frame_.data() + 12);  // VLAN
  EXPECT_EQ(DropReason::kNotIp, Parse(frame_));
  Store16(0x8915, frame_.data() + 12);  // RoCE version 1
  EXPECT_EQ(DropReason::kNotIp, Parse(frame_));
}

TEST_P(FrameParserTest, OtherIpVersionIsABadHeader) {
  Ip(0) = static_cast<uint8_t>((Ip(0) & 0x0f) | 0x50);
  EXPECT_EQ(DropReason::kBadIpHeader, ParseResealed());
}

TEST_P(FrameParserTest, IpLengthBeyondTheFrameIsABadHeader) {
  AddToLengths(frame_, 1);
  EXPECT_EQ(DropReason::kBadIpHeader, ParseResealed());
}

// Such a packet would pass for one of an IPv4 peer.
TEST(Ipv6FrameParserTest, AddressMappedFromIpv4IsABadHeader) {
  const Gid mapped = Gid::FromIpv4({10, 0, 0, 1});
  for (const size_t address_at : {8, 24}) {
    std::vector<uint8_t> frame = GoodFrame(true);
    std::copy(mapped.bytes.begin(), mapped.bytes.end(), frame.data() + kIpAt + address_at);
    Reseal(frame);
    EXPECT_EQ(DropReason::kBadIpHeader, Parse(frame));
  }
}

TEST(Ipv4FrameParserTest, IpLengthBelowTheHeaderIsABadHeader) {
  std::vector<uint8_t> frame = GoodFrame(false);
  Store16(19, frame.data() + kIpAt + 2);
  Reseal(frame);
  EXPECT_EQ(DropReason::kBadIpHeader, Parse(frame));
}

// IBA CA17-24.
TEST(Ipv4FrameParserTest, FragmentAndOptionsAndChecksum) {
  std::vector<uint8_t> frame = GoodFrame(false);
  frame[kIpAt + 6] = 0x20;
  Reseal(frame);
  EXPECT_EQ(DropReason::kBadIpHeader, Parse(frame));

  frame = GoodFrame(false);
  frame[kIpAt] = 0x46;
  Reseal(frame);
  EXPECT_EQ(DropReason::kBadIpHeader, Parse(frame));

  frame = GoodFrame(false);
  frame[kIpAt + 10] ^= 1;
  EXPECT_EQ(DropReason::kBadIpHeader, Parse(frame));
}

// IBA CA17-20.
TEST_P(FrameParserTest, OtherProtocolsAndPortsAreNotRoce) {
  uint8_t& protocol = Ip(ipv6() ? 6 : 9);
  protocol = 6;
  EXPECT_EQ(DropReason::kNotRoce, ParseResealed());
  protocol = 44;  // IPv6 fragment
  EXPECT_EQ(DropReason::kNotRoce, ParseResealed());
  protocol = 17;
  EXPECT_EQ(DropReason::kNone, ParseResealed());
  Udp(3) ^= 1;
  EXPECT_EQ(DropReason::kNotRoce, ParseResealed());
}

// IBA CA17-21.
TEST_P(FrameParserTest, UdpLengthMustBeThatOfTheIpPacket) {
  for (const int difference : {-4, -1, 1, 4}) {
    frame_ = GoodFrame(ipv6());
    Udp(5) = static_cast<uint8_t>(Udp(5) + difference);
    EXPECT_EQ(DropReason::kBadUdpLength, ParseResealed());
  }
}

TEST_P(FrameParserTest, UdpChecksumIsIgnored) {
  Udp(6) = 0x12;
  Udp(7) = 0x34;
  EXPECT_EQ(DropReason::kNone, Parse(frame_));
}

TEST_P(FrameParserTest, OtherTransportVersionIsDropped) {
  Bth(1) |= 1;
  EXPECT_EQ(DropReason::kBadBthVersion, ParseResealed());
}

TEST_P(FrameParserTest, OpcodesThatAreNotSpokenAreDropped) {
  for (const int opcode :
       {0x15, 0x18, 0x1b, 0x1e, 0x2c, 0x3c, 0x3d, 0x44, 0x60, 0x81, 0xb5, 0xb8, 0xff}) {
    Bth(0) = static_cast<uint8_t>(opcode);
    EXPECT_EQ(DropReason::kUnknownOpcode, ParseResealed()) << opcode;
  }
}

TEST_P(FrameParserTest, PadCountLargerThanThePayloadIsDropped) {
  frame_ = GoodFrame(ipv6(), kSendOnly, 0);
  for (uint8_t pad = 1; pad <= 3; ++pad) {
    Bth(1) = static_cast<uint8_t>((Bth(1) & ~0x30) | pad << 4);
    EXPECT_EQ(DropReason::kBadPadding, ParseResealed());
  }
}

TEST_P(FrameParserTest, PayloadAndPadMustBeWholeWords) {
  for (int bytes = 1; bytes <= 3; ++bytes) {
    frame_ = GoodFrame(ipv6());
    frame_.insert(frame_.end(), static_cast<size_t>(bytes), 0);
    AddToLengths(frame_, bytes);
    EXPECT_EQ(DropReason::kBadPadding, ParseResealed());
  }
}

TEST_P(FrameParserTest, PayloadAfterAnAcknowledgeIsDropped) {
  frame_ = GoodFrame(ipv6(), kAcknowledge, 0);
  EXPECT_EQ(DropReason::kNone, ParseResealed());
  frame_.insert(frame_.end(), 4, 0);
  AddToLengths(frame_, 4);
  EXPECT_EQ(DropReason::kBadPadding, ParseResealed());
}

// A sender pads with zeros; a receiver includes the received pad bytes in the ICRC.
TEST_P(FrameParserTest, PadBytesNeedNotBeZero) {
  frame_[frame_.size() - kIcrcBytes - 1] = 0xff;
  EXPECT_EQ(DropReason::kBadIcrc, Parse(frame_));
  EXPECT_EQ(DropReason::kNone, ParseResealed());
}

// IBA CA17-22, CA17-24.
TEST_P(FrameParserTest, WrongIcrcIsDropped) {
  frame_.back() ^= 0x80;
  EXPECT_EQ(DropReason::kBadIcrc, Parse(frame_));
}

TEST_P(FrameParserTest, IcrcThatIsWaivedIsNotChecked) {
  Packet packet;
  frame_.back() ^= 0x80;
  EXPECT_EQ(DropReason::kNone, ParseFrame(frame_, packet, IcrcUse::kWaived));
  frame_.pop_back();
  EXPECT_NE(DropReason::kNone, ParseFrame(frame_, packet, IcrcUse::kWaived));
}

TEST_P(FrameParserTest, RandomBytesAreSafe) {
  std::mt19937 random(3);
  for (int round = 0; round < 50'000; ++round) {
    std::vector<uint8_t> frame = GoodFrame(ipv6(), kSendOnly, random() % 64);
    const size_t damages = 1 + random() % 8;
    for (size_t i = 0; i < damages; ++i) {
      frame[random() % frame.size()] = static_cast<uint8_t>(random());
    }
    if (random() % 4 == 0) frame.resize(random() % (frame.size() + 1));
    if (frame.size() > 90 && random() % 2 == 0) Reseal(frame);
    const std::vector<uint8_t> exact(frame);
    Packet packet;
    if (ParseFrame(exact, packet) != DropReason::kNone) continue;
    // An accepted payload lies within the frame.
    EXPECT_GE(packet.payload.data(), exact.data());
    EXPECT_LE(packet.payload.data() + packet.payload.size(), exact.data() + exact.size() - 4);
  }
}

INSTANTIATE_TEST_SUITE_P(Ip, FrameParserTest, testing::Bool(),
                         [](const auto& ip) { return ip.param ? "v6" : "v4"; });

}  // namespace
}  // namespace uroce::transport
