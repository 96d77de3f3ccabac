// Any bytes can arrive as a frame. Checks: ParseFrame reads no byte outside of them (found by the
// sanitizer); an accepted packet lies within the frame and can be printed; a frame built from it
// holds the same transport packet, byte for byte, and parses to the same. The short way for frames
// of connections must find the same as ParseFrame.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tests/fuzz/require.h"
#include "tests/fuzz/seal_frame.h"
#include "tests/transport/wire/both_ways.h"
#include "transport/wire/bth.h"
#include "transport/wire/encapsulation.h"
#include "transport/wire/extension_headers.h"
#include "transport/wire/frame_builder.h"
#include "transport/wire/frame_parser.h"
#include "transport/wire/icrc.h"
#include "transport/wire/printer.h"

namespace uroce::transport {
namespace {

bool LiesWithin(std::span<const uint8_t> part, const std::vector<uint8_t>& whole) {
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

// From the BTH to the last byte of payload; bits that a receiver ignores get the values that we
// send.
std::vector<uint8_t> TransportBytes(const std::vector<uint8_t>& frame, const Packet& packet) {
  const size_t bth_at = NetworkBytes(frame);
  const size_t bytes = Bth::kBytes + ExtensionBytes(packet.opcode) + packet.payload.size();
  UROCE_REQUIRE(bth_at + bytes <= frame.size());
  std::vector<uint8_t> transport(&frame[bth_at], &frame[bth_at] + bytes);
  transport[4] &= 0xc0;  // FECN, BECN, 6 reserved bits
  transport[8] &= 0x80;  // ack request, 7 reserved bits
  if (packet.opcode.HasDeth()) transport[Bth::kBytes + 4] = 0;
  if (packet.opcode.HasXrceth()) transport[Bth::kBytes] = 0;
  return transport;
}

// The packet in a frame that we build.
std::vector<uint8_t> Rebuild(const Packet& packet) {
  AddressVector address;
  address.destination_gid = packet.flow.destination;
  address.traffic_class = packet.flow.traffic_class;
  const FrameBuilder builder(packet.flow.source_mac, packet.flow.source, address,
                             packet.flow.source_port);
  const PayloadPiece piece{packet.payload.data(), packet.payload.size()};
  std::vector<uint8_t> frame(kMaxFrameBytes + packet.payload.size());
  frame.resize(builder.Emit(packet, {&piece, 1}, frame));
  return frame;
}

void CheckFrame(const std::vector<uint8_t>& frame) {
  UROCE_REQUIRE(BothWaysAgree(frame));
  Packet packet;
  if (ParseFrame(frame, packet) != DropReason::kNone) return;
  const std::string printed = ToString(packet);
  UROCE_REQUIRE(!printed.empty());
  UROCE_REQUIRE(LiesWithin(packet.payload, frame));

  const std::vector<uint8_t> ours = Rebuild(packet);
  UROCE_REQUIRE(TransportBytes(ours, packet) == TransportBytes(frame, packet));
  // We send an IPv6 packet between mapped addresses as IPv4, which parses to another packet.
  if (packet.flow.source.IsIpv4Mapped() != packet.flow.destination.IsIpv4Mapped()) return;
  Packet again;
  UROCE_REQUIRE(ParseFrame(ours, again) == DropReason::kNone);
  UROCE_REQUIRE(ToString(again) == printed);
  UROCE_REQUIRE(Rebuild(again) == ours);
}

}  // namespace
}  // namespace uroce::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<uint8_t> raw(data, data + size);
  uroce::transport::CheckFrame(raw);
  std::vector<uint8_t> sealed = raw;
  uroce::transport::SealFrame(sealed);
  uroce::transport::CheckFrame(sealed);
  UROCE_REQUIRE(uroce::transport::IsStrippedAsAlone(sealed, raw));
  UROCE_REQUIRE(uroce::transport::IsStrippedAsAlone(raw, sealed));
  UROCE_REQUIRE(uroce::transport::IsStrippedAsAlone(sealed, sealed));
  return 0;
}
