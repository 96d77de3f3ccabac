// Our parser reads every frame that rxe sent, and our builder makes the same bytes again.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/interop/replay/capture.h"
#include "tests/interop/replay/known_differences.h"
#include "transport/wire/bth.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/frame_builder.h"
#include "transport/wire/icrc.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/ipv6.h"
#include "transport/wire/printer.h"
#include "transport/wire/udp.h"

namespace uroce::transport::interop {
namespace {

constexpr size_t kCaptures = 46;
constexpr size_t kIpAt = EthernetHeader::kBytes;

bool IsDamaged(const std::string& capture, const CapturedFrame& frame) {
  return capture == kDamagedCapture && std::ranges::count(kDamagedFrames, frame.number) != 0;
}

bool IsIpv6(const CapturedFrame& frame) { return frame.packet.flow.is_ipv6(); }

// The frame, built anew from the parsed packet.
std::vector<uint8_t> Rebuild(const CapturedFrame& frame) {
  const Packet& packet = frame.packet;
  AddressVector address;
  address.destination_gid = packet.flow.destination;
  std::copy_n(frame.bytes.begin(), 6, address.destination_mac.begin());
  address.traffic_class = packet.flow.traffic_class;
  const uint8_t* ip = frame.bytes.data() + kIpAt;
  if (IsIpv6(frame)) {
    address.hop_limit = ParseIpv6(ip)->hop_limit;
    address.flow_label = ParseIpv6(ip)->flow_label;
  } else {
    address.hop_limit = ParseIpv4(ip)->time_to_live;
  }
  const FrameBuilder builder(packet.flow.source_mac, packet.flow.source, address,
                             packet.flow.source_port);
  const PayloadPiece piece{packet.payload.data(), packet.payload.size()};
  std::vector<uint8_t> built(kMaxFrameBytes);
  built.resize(builder.Emit(packet, {&piece, 1}, built));
  if (IsIpv6(frame)) return built;

  // rxe counts the IPv4 identification up, while our paths leave it 0. It changes the header and
  // the ICRC.
  EmitIpv4(*ParseIpv4(ip), built.data() + kIpAt);
  const size_t icrc_at = built.size() - kIcrcBytes;
  EmitIcrc(StartIcrc(IpVersion::kIpv4, built.data(), icrc_at), built.data() + icrc_at);
  return built;
}

TEST(CapturedFramesTest, EveryCaptureIsThere) { EXPECT_EQ(CaptureNames().size(), kCaptures); }

TEST(CapturedFramesTest, EveryFrameIsParsedAndReEmittedBitForBit) {
  size_t damaged = 0;
  for (const std::string& name : CaptureNames()) {
    for (const CapturedFrame& frame : ReadCapture(PathOf(name))) {
      SCOPED_TRACE(name + ", frame " + std::to_string(frame.number));
      if (IsDamaged(name, frame)) {
        ++damaged;
        EXPECT_EQ(frame.verdict, DropReason::kBadIcrc);
        continue;
      }
      ASSERT_EQ(frame.verdict, DropReason::kNone) << Name(frame.verdict);
      EXPECT_EQ(Rebuild(frame), frame.bytes) << ToString(frame.packet);
    }
  }
  EXPECT_EQ(damaged, std::size(kDamagedFrames));
}

// Properties of all of rxe's frames that ours do not have: the README's table.
TEST(CapturedFramesTest, HabitsOfRxe) {
  std::set<uint16_t> identifications;
  for (const std::string& name : CaptureNames()) {
    for (const CapturedFrame& frame : ReadCapture(PathOf(name))) {
      if (IsDamaged(name, frame)) continue;
      SCOPED_TRACE(name + ", frame " + std::to_string(frame.number));
      const Packet& packet = frame.packet;
      EXPECT_FALSE(packet.migration_request);
      if (packet.opcode.HasAeth() && packet.aeth.syndrome.kind() == Syndrome::Kind::kAck) {
        EXPECT_EQ(packet.aeth.syndrome.value(), Syndrome::kNoCreditInformation);
      }
      const uint8_t* ip = frame.bytes.data() + kIpAt;
      if (!IsIpv6(frame)) identifications.insert(ParseIpv4(ip)->identification);
      const size_t ip_bytes = IsIpv6(frame) ? Ipv6Header::kBytes : Ipv4Header::kBytes;
      EXPECT_EQ(ParseUdp(ip + ip_bytes).checksum, 0);
    }
  }
  EXPECT_GT(identifications.size(), 1u);
}

}  // namespace
}  // namespace uroce::transport::interop
