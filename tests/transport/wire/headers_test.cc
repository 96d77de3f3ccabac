// Each header against bytes written by hand from its picture in the specification.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tests/transport/wire/wire_test_util.h"
#include "transport/wire/aeth.h"
#include "transport/wire/atomic_eth.h"
#include "transport/wire/bth.h"
#include "transport/wire/byte_order.h"
#include "transport/wire/deth.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/feth.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/ipv6.h"
#include "transport/wire/reth.h"
#include "transport/wire/udp.h"

namespace uroce::transport {
namespace {

TEST(ByteOrderTest, BigEndianAtAnyAlignment) {
  const std::vector<uint8_t> bytes = FromHex("000123456789abcdef");
  EXPECT_EQ(0x0123, Load16(bytes.data() + 1));
  EXPECT_EQ(0x01234567u, Load32(bytes.data() + 1));
  EXPECT_EQ(0x0123456789abcdefu, Load64(bytes.data() + 1));
  std::vector<uint8_t> out(9);
  Store64(0x0123456789abcdef, out.data() + 1);
  EXPECT_EQ(bytes, out);
  EXPECT_EQ(0x12abcdefu, Word(0x12, 0xffabcdef));
}

// IBA 9.2.
TEST(BthTest, KnownBytes) {
  const std::vector<uint8_t> bytes = FromHex("0ab08001c0abcdef80fedcba");
  const Bth bth{.opcode = 0x0a,
                .solicited = true,
                .migration_request = false,
                .pad_count = 3,
                .pkey = 0x8001,
                .forward_congestion = true,
                .backward_congestion = true,
                .destination_qpn = Qpn{0xabcdef},
                .ack_request = true,
                .psn = Psn(0xfedcba)};
  EXPECT_EQ(bth, ParseBth(bytes.data()));
  std::vector<uint8_t> out(Bth::kBytes);
  EmitBth(bth, out.data());
  EXPECT_EQ(bytes, out);
}

TEST(BthTest, EveryFlagHasItsOwnBit) {
  const auto emit = [](const Bth& bth) {
    std::vector<uint8_t> out(Bth::kBytes);
    EmitBth(bth, out.data());
    return out;
  };
  EXPECT_EQ(FromHex("008000000000000000000000"), emit({.solicited = true}));
  EXPECT_EQ(FromHex("004000000000000000000000"), emit({.migration_request = true}));
  EXPECT_EQ(FromHex("002000000000000000000000"), emit({.pad_count = 2}));
  EXPECT_EQ(FromHex("000500000000000000000000"), emit({.transport_version = 5}));
  EXPECT_EQ(FromHex("000000008000000000000000"), emit({.forward_congestion = true}));
  EXPECT_EQ(FromHex("000000004000000000000000"), emit({.backward_congestion = true}));
  EXPECT_EQ(FromHex("000000000000000080000000"), emit({.ack_request = true}));
}

TEST(BthTest, ReservedBitsAreIgnored) {
  EXPECT_EQ(Bth{}, ParseBth(FromHex("000000003f0000007f000000").data()));
}

// IBA 9.3.3.
TEST(RethTest, KnownBytes) {
  const std::vector<uint8_t> bytes = FromHex("112233445566778899aabbcc00001000");
  const Reth reth{
      .virtual_address = 0x1122334455667788, .rkey = RKey{0x99aabbcc}, .dma_length = 4096};
  EXPECT_EQ(reth, ParseReth(bytes.data()));
  std::vector<uint8_t> out(Reth::kBytes);
  EmitReth(reth, out.data());
  EXPECT_EQ(bytes, out);
}

// IBA A19.4.1.1, A19.4.1.2.
TEST(FethTest, KnownBytesWithReservedBitsIgnored) {
  const Feth feth{.placement = Placement::kGlobal | Placement::kPersistent,
                  .selectivity = Selectivity::kRegion};
  EXPECT_EQ(feth, ParseFeth(FromHex("00000013").data()));
  EXPECT_EQ(feth, ParseFeth(FromHex("ffffffd3").data()));
  EXPECT_EQ((Feth{.placement = Placement::kGlobal}), ParseFeth(FromHex("00000001").data()));
  std::vector<uint8_t> out(Feth::kBytes, 0xff);
  EmitFeth(feth, out.data());
  EXPECT_EQ(FromHex("00000013"), out);
}

// IBA 9.3.2.
TEST(DethTest, KnownBytesWithReservedByteIgnored) {
  const Deth deth{.qkey = 0x80010000, .source_qpn = Qpn{1}};
  EXPECT_EQ(deth, ParseDeth(FromHex("80010000ff000001").data()));
  std::vector<uint8_t> out(Deth::kBytes);
  EmitDeth(deth, out.data());
  EXPECT_EQ(FromHex("8001000000000001"), out);
}

// IBA 9.3.4.
TEST(AtomicEthTest, KnownBytes) {
  const std::vector<uint8_t> bytes =
      FromHex("0102030405060708090a0b0c11121314151617182122232425262728");
  const AtomicEth atomic{.virtual_address = 0x0102030405060708,
                         .rkey = RKey{0x090a0b0c},
                         .swap_or_add = 0x1112131415161718,
                         .compare = 0x2122232425262728};
  EXPECT_EQ(atomic, ParseAtomicEth(bytes.data()));
  std::vector<uint8_t> out(AtomicEth::kBytes);
  EmitAtomicEth(atomic, out.data());
  EXPECT_EQ(bytes, out);
}

// IBA 9.3.5.
TEST(AethTest, EverySyndromeByteSurvives) {
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const Aeth aeth{.syndrome = Syndrome(static_cast<uint8_t>(byte)), .msn = 0xabcdef};
    std::vector<uint8_t> out(Aeth::kBytes);
    EmitAeth(aeth, out.data());
    EXPECT_EQ(Word(static_cast<uint8_t>(byte), 0xabcdef), Load32(out.data()));
    EXPECT_EQ(aeth, ParseAeth(out.data()));
  }
}

TEST(AethTest, SyndromesByTheirBits) {
  EXPECT_EQ(0x1f, Syndrome::Ack(Syndrome::kNoCreditInformation).wire_byte());
  EXPECT_EQ(0x05, Syndrome::Ack(5).wire_byte());
  EXPECT_EQ(0x2c, Syndrome::RnrNak(12).wire_byte());
  EXPECT_EQ(0x60, Syndrome::Nak(NakCode::kPsnSequenceError).wire_byte());
  EXPECT_EQ(0x62, Syndrome::Nak(NakCode::kRemoteAccessError).wire_byte());
  EXPECT_EQ(Syndrome::Kind::kRnrNak, Syndrome(0x2c).kind());
  EXPECT_EQ(12, Syndrome(0x2c).value());
  EXPECT_EQ(Syndrome::Kind::kReserved, Syndrome(0x40).kind());
  EXPECT_EQ(NakCode::kRemoteOperationalError, Syndrome(0x63).nak_code());
}

TEST(EthernetTest, KnownBytes) {
  const std::vector<uint8_t> bytes = FromHex("52540000000b52540000000a0800");
  const EthernetHeader ethernet{.destination = {0x52, 0x54, 0, 0, 0, 0x0b},
                                .source = {0x52, 0x54, 0, 0, 0, 0x0a},
                                .ether_type = EthernetHeader::kIpv4};
  EXPECT_EQ(ethernet, ParseEthernet(bytes.data()));
  std::vector<uint8_t> out(EthernetHeader::kBytes);
  EmitEthernet(ethernet, out.data());
  EXPECT_EQ(bytes, out);
}

// A header whose checksum is computed in the literature on RFC 1071.
constexpr const char* kIpv4Example = "4500003c1c4640004006b1e6ac100a63ac100a0c";

// IBA CA17-7.
TEST(Ipv4Test, KnownBytes) {
  const std::vector<uint8_t> bytes = FromHex(kIpv4Example);
  const Ipv4Header ip{.traffic_class = 0,
                      .total_length = 60,
                      .identification = 0x1c46,
                      .time_to_live = 64,
                      .protocol = 6,
                      .source = {172, 16, 10, 99},
                      .destination = {172, 16, 10, 12}};
  ASSERT_TRUE(ParseIpv4(bytes.data()));
  EXPECT_EQ(ip, *ParseIpv4(bytes.data()));
  std::vector<uint8_t> out(Ipv4Header::kBytes);
  EmitIpv4(ip, out.data());
  EXPECT_EQ(bytes, out);
}

TEST(Ipv4Test, EverySingleBitErrorIsRefused) {
  for (size_t bit = 0; bit < Ipv4Header::kBytes * 8; ++bit) {
    std::vector<uint8_t> bytes = FromHex(kIpv4Example);
    bytes[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    EXPECT_FALSE(ParseIpv4(bytes.data())) << "bit " << bit;
  }
}

// Recomputes the checksum of a header that was changed on purpose.
void Reseal(std::vector<uint8_t>& ip) {
  Store16(0, ip.data() + 10);
  uint32_t sum = 0;
  for (size_t i = 0; i < ip.size(); i += 2) sum += Load16(ip.data() + i);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  Store16(static_cast<uint16_t>(~sum), ip.data() + 10);
}

// IBA CA17-3, CA17-8.
TEST(Ipv4Test, OptionsAndFragmentsAreRefused) {
  const auto changed = [](size_t at, uint8_t value) {
    std::vector<uint8_t> bytes = FromHex(kIpv4Example);
    bytes[at] = value;
    Reseal(bytes);
    return ParseIpv4(bytes.data()).has_value();
  };
  EXPECT_TRUE(changed(8, 1));      // the control: another TTL
  EXPECT_TRUE(changed(6, 0x00));   // may be fragmented, but is not
  EXPECT_FALSE(changed(0, 0x46));  // one word of options
  EXPECT_FALSE(changed(0, 0x44));  // a header that is too short
  EXPECT_FALSE(changed(0, 0x65));  // version 6
  EXPECT_FALSE(changed(6, 0x20));  // more fragments
  EXPECT_FALSE(changed(7, 0x01));  // fragment offset 1
  EXPECT_FALSE(changed(6, 0x10));  // fragment offset 4096
}

TEST(Ipv4Test, TotalLengthCanBeSetLater) {
  Ipv4Header ip{
      .time_to_live = 64, .protocol = 17, .source = {10, 0, 0, 1}, .destination = {10, 0, 0, 2}};
  std::array<uint8_t, Ipv4Header::kBytes> blank;
  EmitIpv4(ip, blank.data());
  for (uint32_t length = 1; length <= 0xffff; ++length) {
    ip.total_length = static_cast<uint16_t>(length);
    std::array<uint8_t, Ipv4Header::kBytes> expected;
    EmitIpv4(ip, expected.data());
    std::array<uint8_t, Ipv4Header::kBytes> patched = blank;
    SetIpv4TotalLength(ip.total_length, blank.data(), patched.data());
    ASSERT_EQ(expected, patched) << length;
  }
}

TEST(Ipv4Test, IdentificationCanBeSetLater) {
  Ipv4Header ip{.total_length = 1'234, .time_to_live = 64, .protocol = 17, .source = {10, 0, 0, 1}};
  std::array<uint8_t, Ipv4Header::kBytes> blank;
  EmitIpv4(ip, blank.data());
  for (uint32_t identification = 0; identification <= 0xffff; ++identification) {
    ip.identification = static_cast<uint16_t>(identification);
    std::array<uint8_t, Ipv4Header::kBytes> expected;
    EmitIpv4(ip, expected.data());
    std::array<uint8_t, Ipv4Header::kBytes> patched = blank;
    SetIpv4Identification(ip.identification, blank.data(), patched.data());
    ASSERT_EQ(expected, patched) << identification;
  }
}

TEST(Ipv6Test, KnownBytes) {
  const std::vector<uint8_t> bytes = FromHex(
      "6ab54321001c113f"
      "fe80000000000000505400fffe00000a"
      "fe80000000000000505400fffe00000b");
  Ipv6Header ip{.traffic_class = 0xab,
                .flow_label = 0x54321,
                .payload_length = 28,
                .next_header = 17,
                .hop_limit = 63};
  ip.source = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x50, 0x54, 0, 0xff, 0xfe, 0, 0, 0x0a};
  ip.destination = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x50, 0x54, 0, 0xff, 0xfe, 0, 0, 0x0b};
  ASSERT_TRUE(ParseIpv6(bytes.data()));
  EXPECT_EQ(ip, *ParseIpv6(bytes.data()));
  std::vector<uint8_t> out(Ipv6Header::kBytes);
  EmitIpv6(ip, out.data());
  EXPECT_EQ(bytes, out);
}

TEST(Ipv6Test, OtherVersionsAreRefused) {
  for (int version = 0; version < 16; ++version) {
    std::vector<uint8_t> bytes(Ipv6Header::kBytes);
    bytes[0] = static_cast<uint8_t>(version << 4);
    EXPECT_EQ(version == 6, ParseIpv6(bytes.data()).has_value());
  }
}

TEST(UdpTest, KnownBytes) {
  const std::vector<uint8_t> bytes = FromHex("c12112b7001c1234");
  const UdpHeader udp{
      .source_port = 0xc121, .destination_port = 4791, .length = 28, .checksum = 0x1234};
  EXPECT_EQ(udp, ParseUdp(bytes.data()));
  std::vector<uint8_t> out(UdpHeader::kBytes);
  EmitUdp(udp, out.data());
  EXPECT_EQ(bytes, out);
}

}  // namespace
}  // namespace uroce::transport
