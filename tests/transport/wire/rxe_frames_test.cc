// Frames of another implementation as independent test vectors for everything in transport/wire.
#include "tests/transport/wire/rxe_frames.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/transport/wire/wire_test_util.h"
#include "transport/wire/bth.h"
#include "transport/wire/extension_headers.h"
#include "transport/wire/frame_builder.h"
#include "transport/wire/frame_parser.h"
#include "transport/wire/icrc.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/ipv6.h"
#include "transport/wire/printer.h"

namespace uroce::transport {
namespace {

class RxeFrameTest : public testing::TestWithParam<RxeFrame> {
 protected:
  RxeFrameTest() : frame_(FromHex(GetParam().hex)) {}

  IpVersion version() const { return IsIpv6(frame_) ? IpVersion::kIpv6 : IpVersion::kIpv4; }
  uint8_t pad_count() const { return ParseBth(frame_.data() + BthAt(frame_)).pad_count; }

  std::vector<uint8_t> frame_;
};

TEST_P(RxeFrameTest, ParsesAsTheOtherDecoderDoes) {
  Packet packet;
  ASSERT_EQ(DropReason::kNone, ParseFrame(frame_, packet));
  EXPECT_EQ(GetParam().text, ToString(packet));
}

TEST_P(RxeFrameTest, ReEmittedBitForBit) {
  Packet packet;
  ASSERT_EQ(DropReason::kNone, ParseFrame(frame_, packet));

  // Keeps the network headers, because rxe counts the IPv4 identification up; rebuilds the rest.
  std::vector<uint8_t> ours(frame_.begin(), frame_.begin() + static_cast<long>(BthAt(frame_)));
  ours.resize(frame_.size(), 0);
  uint8_t* bth = ours.data() + BthAt(frame_);
  EmitBth({.opcode = EncodeOpcode(packet.opcode),
           .solicited = packet.solicited,
           .migration_request = packet.migration_request,
           .pad_count = pad_count(),
           .pkey = packet.pkey,
           .destination_qpn = packet.destination_qpn,
           .ack_request = packet.ack_request,
           .psn = packet.psn},
          bth);
  EmitExtensions(RowOf(packet.opcode), packet, bth + Bth::kBytes);
  std::ranges::copy(packet.payload, bth + Bth::kBytes + ExtensionBytes(packet.opcode));
  const size_t icrc_at = ours.size() - kIcrcBytes;
  EmitIcrc(StartIcrc(version(), ours.data(), icrc_at), ours.data() + icrc_at);
  EXPECT_EQ(frame_, ours);
}

TEST_P(RxeFrameTest, BuilderGivesTheSameFrame) {
  Packet packet;
  ASSERT_EQ(DropReason::kNone, ParseFrame(frame_, packet));
  AddressVector address;
  address.destination_gid = packet.flow.destination;
  std::copy_n(frame_.begin(), 6, address.destination_mac.begin());
  address.traffic_class = packet.flow.traffic_class;
  address.hop_limit = frame_[kIpAt + (IsIpv6(frame_) ? 7 : 8)];
  if (IsIpv6(frame_)) address.flow_label = ParseIpv6(frame_.data() + kIpAt)->flow_label;
  const FrameBuilder builder(packet.flow.source_mac, packet.flow.source, address,
                             packet.flow.source_port);
  const PayloadPiece piece{packet.payload.data(), packet.payload.size()};
  std::vector<uint8_t> ours(kMaxFrameBytes);
  ours.resize(builder.Emit(packet, {&piece, 1}, ours));

  if (!IsIpv6(frame_)) {
    // The identification differs, and with it the header checksum and the ICRC.
    for (const size_t at : {kIpAt + 4, kIpAt + 5, kIpAt + 10, kIpAt + 11, frame_.size() - 4,
                            frame_.size() - 3, frame_.size() - 2, frame_.size() - 1}) {
      ours[at] = frame_[at];
    }
  }
  EXPECT_EQ(frame_, ours);
}

// The negative control of the ICRC: a bit that it covers cannot change unnoticed. (Some flips make
// another frame of it, or fail another check first; such frames are dropped for that reason.)
// IBA CA17-22.
TEST_P(RxeFrameTest, EveryFlippedBitIsNoticedUnlessTheIcrcMasksIt) {
  const size_t udp = UdpAt(frame_);
  const size_t bth = BthAt(frame_);
  // Bits that routers may change, by byte of the frame. The header checksum protects the other bits
  // of the IPv4 header, where only a pair of flips could pass.
  std::vector<uint8_t> masked(frame_.size(), 0);
  std::fill_n(masked.begin(), 12, uint8_t{0xff});  // Ethernet addresses
  if (IsIpv6(frame_)) {
    masked[kIpAt] = 0x0f;
    masked[kIpAt + 1] = masked[kIpAt + 2] = masked[kIpAt + 3] = 0xff;
    masked[kIpAt + 7] = 0xff;
  }
  masked[udp + 6] = masked[udp + 7] = 0xff;
  masked[bth + 4] = 0xff;

  for (size_t bit = 0; bit < frame_.size() * 8; ++bit) {
    std::vector<uint8_t> damaged = frame_;
    const auto flip = static_cast<uint8_t>(1 << bit % 8);
    damaged[bit / 8] ^= flip;
    Packet packet;
    const DropReason reason = ParseFrame(damaged, packet);
    const bool is_masked = (masked[bit / 8] & flip) != 0;
    EXPECT_EQ(is_masked, reason == DropReason::kNone)
        << "bit " << bit % 8 << " of byte " << bit / 8 << ": " << Name(reason);
  }
}

// A router that decrements the TTL corrects the header checksum; the ICRC stays right.
TEST_P(RxeFrameTest, RoutedFrameIsAccepted) {
  if (IsIpv6(frame_)) {
    frame_[kIpAt + 7] = 3;  // hop limit
  } else {
    Ipv4Header ip = *ParseIpv4(frame_.data() + kIpAt);
    ip.time_to_live = 3;
    ip.traffic_class = 0x2b;  // the router also marks congestion
    EmitIpv4(ip, frame_.data() + kIpAt);
  }
  Packet packet;
  EXPECT_EQ(DropReason::kNone, ParseFrame(frame_, packet));
}

INSTANTIATE_TEST_SUITE_P(Captured, RxeFrameTest, testing::ValuesIn(kRxeFrames),
                         [](const auto& frame) { return frame.param.name; });

}  // namespace
}  // namespace uroce::transport
