// Any bytes can arrive as a frame. What is checked: ParseFrame does not read outside of them (the
// sanitizer's part), the payload it accepts lies within the frame, and a frame built from what it
// parsed parses to the same.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "transport/wire/ethernet.h"
#include "transport/wire/frame_builder.h"
#include "transport/wire/frame_parser.h"
#include "transport/wire/icrc.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/ipv6.h"
#include "transport/wire/printer.h"
#include "transport/wire/udp.h"

namespace uroce::transport {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

// Computes the checksums that a mutation of a frame cannot guess.
void Seal(std::vector<uint8_t>& frame) {
  if (frame.size() < EthernetHeader::kBytes) return;
  const bool ipv6 = ParseEthernet(frame.data()).ether_type == EthernetHeader::kIpv6;
  const size_t network_bytes =
      EthernetHeader::kBytes + UdpHeader::kBytes + (ipv6 ? Ipv6Header::kBytes : Ipv4Header::kBytes);
  if (frame.size() < network_bytes + 16) return;
  if (!ipv6) {
    uint8_t* ip = frame.data() + EthernetHeader::kBytes;
    ip[10] = ip[11] = 0;
    const auto checksum = static_cast<uint16_t>(~ipv4_internal::Sum(ip));
    std::memcpy(ip + 10, &checksum, sizeof checksum);
  }
  const size_t icrc_at = frame.size() - kIcrcBytes;
  EmitIcrc(StartIcrc(ipv6 ? IpVersion::kIpv6 : IpVersion::kIpv4, frame.data(), icrc_at),
           frame.data() + icrc_at);
}

void CheckFrame(const std::vector<uint8_t>& frame) {
  Packet packet;
  if (ParseFrame(frame, packet) != DropReason::kNone) return;
  Require(packet.payload.data() >= frame.data());
  Require(packet.payload.data() + packet.payload.size() <= frame.data() + frame.size());

  AddressVector address;
  address.destination_gid = packet.destination_gid;
  address.traffic_class = packet.traffic_class;
  const FrameBuilder builder(packet.source_mac, packet.source_gid, address, packet.udp_source_port);
  const PayloadPiece piece{packet.payload.data(), packet.payload.size()};
  std::vector<uint8_t> ours(builder.FrameBytes(packet.opcode, packet.payload.size()));
  Require(builder.Emit(packet, {&piece, 1}, ours) == ours.size());
  // An IPv6 packet between mapped addresses goes out as IPv4, from which nothing comes back alike.
  if (packet.source_gid.IsIpv4Mapped() != packet.destination_gid.IsIpv4Mapped()) return;
  Packet again;
  Require(ParseFrame(ours, again) == DropReason::kNone);
  Require(ToString(again) == ToString(packet));
  Require(std::ranges::equal(again.payload, packet.payload));
}

}  // namespace
}  // namespace uroce::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<uint8_t> frame(data, data + size);
  uroce::transport::CheckFrame(frame);
  uroce::transport::Seal(frame);
  uroce::transport::CheckFrame(frame);
  return 0;
}
