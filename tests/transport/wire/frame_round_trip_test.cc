#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "transport/wire/bth.h"
#include "transport/wire/extension_headers.h"
#include "transport/wire/frame_builder.h"
#include "transport/wire/frame_parser.h"

namespace uroce::transport {
namespace {

constexpr MacAddress kSourceMac{0x02, 0, 0, 0, 0, 1};
constexpr MacAddress kDestinationMac{0x02, 0, 0, 0, 0, 2};

struct Addresses {
  Gid source;
  Gid destination;
};

Addresses AddressesOf(bool ipv6) {
  if (ipv6) return {Gid::LinkLocal(kSourceMac), Gid::LinkLocal(kDestinationMac)};
  return {Gid::FromIpv4({10, 0, 0, 1}), Gid::FromIpv4({10, 0, 0, 2})};
}

AddressVector PathTo(const Gid& destination) {
  AddressVector address;
  address.destination_gid = destination;
  address.destination_mac = kDestinationMac;
  address.flow_label = 0x54321;
  address.traffic_class = 0x6a;
  address.hop_limit = 17;
  return address;
}

// Headers with every field set, whether or not the opcode has it on the wire.
TransportHeaders FullHeaders(const Opcode& opcode) {
  TransportHeaders headers;
  headers.opcode = opcode;
  headers.solicited = true;
  headers.migration_request = false;
  headers.forward_congestion = true;
  headers.backward_congestion = true;
  headers.ack_request = true;
  headers.pkey = 0x8001;
  headers.destination_qpn = Qpn{0xabcdef};
  headers.psn = Psn(0xfedcba);
  headers.xrceth = {Srqn{0x717273}};
  headers.feth = {.placement = 0xa, .selectivity = static_cast<Selectivity>(3)};
  headers.deth = {.qkey = 0x80010000, .source_qpn = Qpn{0x123456}};
  headers.reth = {
      .virtual_address = 0x1122334455667788, .rkey = RKey{0x99aabbcc}, .dma_length = 0xddeeff01};
  headers.atomic = {.virtual_address = 0x0102030405060708,
                    .rkey = RKey{0x090a0b0c},
                    .swap_or_add = 0x1112131415161718,
                    .compare = 0x2122232425262728};
  headers.aeth = {.syndrome = Syndrome::Nak(NakCode::kRemoteAccessError), .msn = 0x313233};
  headers.atomic_original = 0x4142434445464748;
  headers.immediate = 0x51525354;
  headers.invalidate_rkey = RKey{0x61626364};
  return headers;
}

void ExpectEqualOnWire(const TransportHeaders& sent, const TransportHeaders& received) {
  const Opcode& opcode = sent.opcode;
  EXPECT_EQ(opcode, received.opcode);
  EXPECT_EQ(sent.solicited, received.solicited);
  EXPECT_EQ(sent.migration_request, received.migration_request);
  EXPECT_EQ(sent.forward_congestion, received.forward_congestion);
  EXPECT_EQ(sent.backward_congestion, received.backward_congestion);
  EXPECT_EQ(sent.ack_request, received.ack_request);
  EXPECT_EQ(sent.pkey, received.pkey);
  EXPECT_EQ(sent.destination_qpn, received.destination_qpn);
  EXPECT_EQ(sent.psn, received.psn);
  EXPECT_EQ(opcode.HasDeth() ? sent.deth : Deth{}, received.deth);
  EXPECT_EQ(opcode.HasXrceth() ? sent.xrceth : Xrceth{}, received.xrceth);
  EXPECT_EQ(opcode.HasFeth() ? sent.feth : Feth{}, received.feth);
  EXPECT_EQ(opcode.HasReth() ? sent.reth : Reth{}, received.reth);
  EXPECT_EQ(opcode.HasAtomicEth() ? sent.atomic : AtomicEth{}, received.atomic);
  EXPECT_EQ(opcode.HasAeth() ? sent.aeth : Aeth{}, received.aeth);
  EXPECT_EQ(opcode.HasAtomicAckEth() ? sent.atomic_original : 0, received.atomic_original);
  EXPECT_EQ(opcode.HasImmediate() ? sent.immediate : 0, received.immediate);
  EXPECT_EQ(opcode.HasIeth() ? sent.invalidate_rkey : RKey{}, received.invalidate_rkey);
}

class FrameRoundTripTest : public testing::TestWithParam<bool> {
 protected:
  static size_t FrameBytes(const Opcode& opcode, size_t payload_bytes) {
    const size_t network_bytes = GetParam() ? 14 + 40 + 8 : 14 + 20 + 8;
    const size_t padded_bytes = (payload_bytes + 3) / 4 * 4;
    return network_bytes + Bth::kBytes + ExtensionBytes(opcode) + padded_bytes + kIcrcBytes;
  }

  Addresses addresses_ = AddressesOf(GetParam());
  FrameBuilder builder_{kSourceMac, addresses_.source, PathTo(addresses_.destination), 0xc123};
};

// IBA 9.3.6, 9.3.7.
TEST_P(FrameRoundTripTest, EveryOpcodeAndPayloadSize) {
  std::mt19937 random(1);
  std::vector<uint8_t> payload(4096);
  for (uint8_t& byte : payload) byte = static_cast<uint8_t>(random());

  for (int code = 0; code < 256; ++code) {
    const std::optional<Opcode> opcode = ParseOpcode(static_cast<uint8_t>(code));
    if (!opcode) continue;
    const TransportHeaders headers = FullHeaders(*opcode);
    const size_t largest = opcode->HasPayload() ? payload.size() : 0;
    for (size_t bytes = 0; bytes <= largest; bytes += bytes < 300 ? 1 : 211) {
      SCOPED_TRACE(testing::Message() << "opcode " << code << ", " << bytes << " bytes");
      const PayloadPiece piece{payload.data(), bytes};
      // Exactly as large as the frame, so that ASan sees a write past the end.
      std::vector<uint8_t> frame(FrameBytes(*opcode, bytes));
      ASSERT_EQ(frame.size(), builder_.Emit(headers, {&piece, 1}, frame));
      ASSERT_LE(frame.size(), kMaxFrameBytes);

      Packet packet;
      ASSERT_EQ(DropReason::kNone, ParseFrame(frame, packet));
      ExpectEqualOnWire(headers, packet);
      EXPECT_EQ(addresses_.source, packet.flow.source);
      EXPECT_EQ(addresses_.destination, packet.flow.destination);
      EXPECT_EQ(kSourceMac, packet.flow.source_mac);
      EXPECT_EQ(0x6a, packet.flow.traffic_class);
      EXPECT_EQ(0xc123, packet.flow.source_port);
      ASSERT_EQ(bytes, packet.payload.size());
      EXPECT_EQ(0, std::memcmp(payload.data(), packet.payload.data(), bytes));
    }
  }
}

TEST_P(FrameRoundTripTest, PayloadInPiecesGivesTheSameFrame) {
  std::vector<uint8_t> payload(1001);
  for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<uint8_t>(i * 7);
  const TransportHeaders headers = FullHeaders(*ParseOpcode(0x04));
  const PayloadPiece whole{payload.data(), payload.size()};
  std::vector<uint8_t> expected(FrameBytes(headers.opcode, payload.size()));
  (void)builder_.Emit(headers, {&whole, 1}, expected);

  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    std::vector<PayloadPiece> pieces;
    for (size_t at = 0; at < payload.size();) {
      const size_t bytes = std::min<size_t>(random() % 100, payload.size() - at);
      pieces.push_back({payload.data() + at, bytes});
      at += bytes;
    }
    std::vector<uint8_t> frame(expected.size());
    ASSERT_EQ(expected.size(), builder_.Emit(headers, pieces, frame));
    ASSERT_EQ(expected, frame);
  }
}

// Frames between processes that share memory have no ICRC; FillInIcrc adds it for a capture.
TEST_P(FrameRoundTripTest, FrameWithoutIcrcIsTheSameOnceItIsFilledIn) {
  const std::vector<uint8_t> payload(4096, 0x5a);
  for (const int code : {0x04, 0x06, 0x0a, 0x11, 0x13, 0x1c, 0x1d, 0x64, 0xab, 0xb3}) {
    for (const size_t bytes : {0, 1, 2, 3, 4, 15, 64, 65, 130, 4096}) {
      const TransportHeaders headers = FullHeaders(*ParseOpcode(static_cast<uint8_t>(code)));
      const PayloadPiece piece{payload.data(), headers.opcode.HasPayload() ? bytes : 0};
      std::vector<uint8_t> expected(FrameBytes(headers.opcode, piece.length));
      ASSERT_EQ(expected.size(), builder_.Emit(headers, {&piece, 1}, expected));
      std::vector<uint8_t> frame(expected.size(), 0xee);
      const FrameRoom room(frame, IcrcUse::kWaived);
      ASSERT_EQ(expected.size(), builder_.Emit(headers, {&piece, 1}, room));

      Packet packet;
      EXPECT_EQ(DropReason::kBadIcrc, ParseFrame(frame, packet));
      ASSERT_EQ(DropReason::kNone, ParseFrame(frame, packet, IcrcUse::kWaived));
      ExpectEqualOnWire(headers, packet);
      EXPECT_TRUE(std::ranges::equal(packet.payload, std::span(payload).first(piece.length)));

      EXPECT_EQ(std::vector<uint8_t>(4), std::vector<uint8_t>(frame.end() - 4, frame.end()));
      frame.resize(frame.size() + 9, 0x77);  // Ethernet padding
      expected.resize(expected.size() + 9, 0x77);
      FillInIcrc(frame);
      ASSERT_EQ(expected, frame) << "opcode " << code << ", " << bytes << " bytes";
    }
  }
}

TEST_P(FrameRoundTripTest, FilledInAreRoceFramesOnly) {
  const TransportHeaders headers = FullHeaders(*ParseOpcode(0x11));
  std::vector<uint8_t> frame(FrameBytes(headers.opcode, 0));
  ASSERT_EQ(frame.size(), builder_.Emit(headers, {}, FrameRoom(frame, IcrcUse::kWaived)));
  const size_t udp = GetParam() ? 14 + 40 : 14 + 20;
  const auto expect_left_alone = [](std::vector<uint8_t> other) {
    const std::vector<uint8_t> before = other;
    FillInIcrc(other);
    EXPECT_EQ(before, other);
  };
  for (size_t bytes = 0; bytes < frame.size(); ++bytes) {
    expect_left_alone({frame.begin(), frame.begin() + static_cast<ptrdiff_t>(bytes)});
  }
  for (const size_t at : {size_t{12}, udp + 3, udp + 4}) {  // EtherType, port, length
    std::vector<uint8_t> other = frame;
    other[at] ^= 0x40;
    expect_left_alone(std::move(other));
  }
}

INSTANTIATE_TEST_SUITE_P(Ip, FrameRoundTripTest, testing::Bool(),
                         [](const auto& ip) { return ip.param ? "v6" : "v4"; });

}  // namespace
}  // namespace uroce::transport
