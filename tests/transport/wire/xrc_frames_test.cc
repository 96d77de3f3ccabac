// The bytes of every opcode of XRC, from the BTH on (IBA table 38): the XRCETH precedes all other
// extension headers, in every request and in no response.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/transport/wire/wire_test_util.h"
#include "transport/wire/frame_builder.h"
#include "transport/wire/frame_parser.h"
#include "transport/wire/printer.h"

namespace uroce::transport {
namespace {

constexpr size_t kBthAt = 14 + 20 + 8;
constexpr size_t kIcrcBytes = 4;

struct Golden {
  uint8_t opcode;
  std::string bytes;  // from the second byte of the BTH up to the ICRC
};

const std::string kBth = "c0ffff00123456800abcde";  // solicited, MigReq, asks for an ACK
const std::string kXrceth = "0071727f";
const std::string kReth =
    "1122334455667788"
    "99aabbcc"
    "00000004";
const std::string kFeth = "00000011";
const std::string kAeth = "62313233";
const std::string kImmediate = "51525354";
const std::string kIeth = "61626364";
const std::string kPayload = "77787a79";
const std::string kSwap =
    "0102030405060708"
    "090a0b0c"
    "1112131415161718"
    "2122232425262728";

const Golden kGolden[] = {
    {0xa0, kBth + kXrceth + kPayload},
    {0xa1, kBth + kXrceth + kPayload},
    {0xa2, kBth + kXrceth + kPayload},
    {0xa3, kBth + kXrceth + kImmediate + kPayload},
    {0xa4, kBth + kXrceth + kPayload},
    {0xa5, kBth + kXrceth + kImmediate + kPayload},
    {0xa6, kBth + kXrceth + kReth + kPayload},
    {0xa7, kBth + kXrceth + kPayload},
    {0xa8, kBth + kXrceth + kPayload},
    {0xa9, kBth + kXrceth + kImmediate + kPayload},
    {0xaa, kBth + kXrceth + kReth + kPayload},
    {0xab, kBth + kXrceth + kReth + kImmediate + kPayload},
    {0xac, kBth + kXrceth + kReth},
    {0xad, kBth + kAeth + kPayload},
    {0xae, kBth + kPayload},
    {0xaf, kBth + kAeth + kPayload},
    {0xb0, kBth + kAeth + kPayload},
    {0xb1, kBth + kAeth},
    {0xb2, kBth + kAeth + "4142434445464748"},
    {0xb3, kBth + kXrceth + kSwap},
    {0xb4, kBth + kXrceth + kSwap},
    {0xb6, kBth + kXrceth + kIeth + kPayload},
    {0xb7, kBth + kXrceth + kIeth + kPayload},
    {0xbc, kBth + kXrceth + kFeth + kReth},
    {0xbd, kBth + kXrceth + kReth + kPayload},
};

TransportHeaders HeadersOf(uint8_t code) {
  TransportHeaders headers;
  headers.opcode = *ParseOpcode(code);
  headers.solicited = true;
  headers.ack_request = true;
  headers.destination_qpn = Qpn{0x123456};
  headers.psn = Psn(0x0abcde);
  headers.xrceth = {Srqn{0x71727f}};
  headers.feth = {.placement = Placement::kGlobal, .selectivity = Selectivity::kRegion};
  headers.reth = {.virtual_address = 0x1122334455667788, .rkey = RKey{0x99aabbcc}, .dma_length = 4};
  headers.atomic = {.virtual_address = 0x0102030405060708,
                    .rkey = RKey{0x090a0b0c},
                    .swap_or_add = 0x1112131415161718,
                    .compare = 0x2122232425262728};
  headers.aeth = {.syndrome = Syndrome::Nak(NakCode::kRemoteAccessError), .msn = 0x313233};
  headers.atomic_original = 0x4142434445464748;
  std::ranges::copy(FromHex(kImmediate), reinterpret_cast<uint8_t*>(&headers.immediate));
  headers.invalidate_rkey = RKey{0x61626364};
  return headers;
}

std::vector<uint8_t> Build(uint8_t code) {
  AddressVector address;
  address.destination_gid = Gid::FromIpv4({10, 0, 0, 2});
  address.destination_mac = {2, 0, 0, 0, 0, 2};
  address.hop_limit = 64;
  const FrameBuilder builder({2, 0, 0, 0, 0, 1}, Gid::FromIpv4({10, 0, 0, 1}), address, 0xc000);
  const TransportHeaders headers = HeadersOf(code);
  const std::vector<uint8_t> payload = FromHex(kPayload);
  const PayloadPiece piece{payload.data(), headers.opcode.HasPayload() ? payload.size() : 0};
  std::vector<uint8_t> frame(kMaxFrameBytes);
  frame.resize(builder.Emit(headers, {&piece, 1}, frame));
  return frame;
}

TEST(XrcFramesTest, EveryOpcodeHasTheseBytes) {
  size_t known = 0;
  for (int code = 0xa0; code < 0xc0; ++code)
    known += ParseOpcode(static_cast<uint8_t>(code)) ? 1 : 0;
  EXPECT_EQ(known, std::size(kGolden));
  for (const Golden& golden : kGolden) {
    SCOPED_TRACE(ToString(*ParseOpcode(golden.opcode)));
    const std::vector<uint8_t> frame = Build(golden.opcode);
    std::vector<uint8_t> expected = FromHex(golden.bytes);
    expected.insert(expected.begin(), golden.opcode);
    EXPECT_EQ(std::vector<uint8_t>(frame.begin() + kBthAt, frame.end() - kIcrcBytes), expected);
  }
}

// The reserved bits of the XRCETH are ignored.
TEST(XrcFramesTest, TheNumberIsRead) {
  std::vector<uint8_t> frame = Build(0xb3);
  frame[kBthAt + 12] = 0xff;
  Packet packet;
  ASSERT_EQ(ParseFrame(frame, packet, IcrcUse::kWaived), DropReason::kNone);
  EXPECT_EQ(packet.xrceth.srqn, Srqn{0x71727f});
  EXPECT_EQ(packet.atomic.compare, 0x2122232425262728u);
}

// A frame that ends inside the XRCETH, with consistent lengths.
TEST(XrcFramesTest, AFrameThatEndsInTheXrcethIsTooShort) {
  std::vector<uint8_t> frame = Build(0xa4);
  frame.resize(kBthAt + 12 + 3 + kIcrcBytes);
  frame[14 + 3] = static_cast<uint8_t>(frame.size() - 14);
  frame[14 + 20 + 5] = static_cast<uint8_t>(frame.size() - 14 - 20);
  frame[14 + 10] = frame[14 + 11] = 0;
  uint32_t sum = 0;
  for (size_t i = 14; i < 34; i += 2) sum += uint32_t{frame[i]} << 8 | frame[i + 1];
  sum = (sum & 0xffff) + (sum >> 16);
  frame[14 + 10] = static_cast<uint8_t>(~sum >> 8);
  frame[14 + 11] = static_cast<uint8_t>(~sum);
  Packet packet;
  EXPECT_EQ(ParseFrame(frame, packet, IcrcUse::kWaived), DropReason::kTooShort);
}

TEST(XrcFramesTest, IsPrintedWithItsQueue) {
  Packet packet;
  const std::vector<uint8_t> frame = Build(0xaa);
  ASSERT_EQ(ParseFrame(frame, packet), DropReason::kNone);
  EXPECT_EQ(ToString(packet),
            "10.0.0.1 > 10.0.0.2 XRC_WRITE_ONLY qpn 0x123456 psn 703710 ackreq solicited "
            "xrceth(srqn=0x71727f) reth(va=0x1122334455667788 rkey=0x99aabbcc len=4) 4B");
  ASSERT_EQ(ParseFrame(Build(0xbc), packet), DropReason::kNone);
  EXPECT_EQ(ToString(packet),
            "10.0.0.1 > 10.0.0.2 XRC_FLUSH qpn 0x123456 psn 703710 ackreq solicited "
            "xrceth(srqn=0x71727f) feth(placement=0x1 selectivity=1) "
            "reth(va=0x1122334455667788 rkey=0x99aabbcc len=4)");
}

}  // namespace
}  // namespace uroce::transport
