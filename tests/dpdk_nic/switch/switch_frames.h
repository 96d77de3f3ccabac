#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/link_layer/link_layer.h"
#include "dpdk_nic/switch/frame_check.h"
#include "tests/transport/cm/mad_spec.h"
#include "transport/limits.h"
#include "transport/wire/frame_builder.h"

namespace uroce::nic {

// The NIC of the fabric under test, a host beyond it, and the fabric's clients.
inline constexpr transport::MacAddress kOurMac = {0x02, 0, 0, 0, 0, 0x0a};
inline constexpr transport::MacAddress kFarMac = {0x02, 0, 0, 0, 0, 0x0b};
inline constexpr transport::Gid kOurIpv4 = transport::Gid::FromIpv4({192, 0, 2, 1});
inline constexpr transport::Gid kFarIpv4 = transport::Gid::FromIpv4({192, 0, 2, 2});
inline constexpr transport::Gid kOurIpv6 = {
    {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
inline constexpr transport::Gid kFarIpv6 = {
    {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
inline constexpr transport::Gid kGroup = transport::Gid::FromIpv4({239, 1, 2, 3});
inline constexpr transport::Gid kIpv6Group = {
    {0xff, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5}};
inline constexpr control::Block kAlice = 3;
inline constexpr control::Block kBob = 1'000;

constexpr transport::Qpn QpOf(control::Block block, uint32_t number) {
  return {block * transport::kMaxQps + number};
}

inline constexpr uint8_t kRcSendOnly = 0x04;
inline constexpr uint8_t kRcAcknowledge = 0x11;
inline constexpr uint8_t kUcWriteOnly = 0x2a;
inline constexpr uint8_t kUdSendOnly = 0x64;
inline constexpr uint8_t kUdSendOnlyImmediate = 0x65;

// A frame as a transport sends it; by default from the host beyond the wire to Alice.
struct RoceSpec {
  transport::MacAddress source_mac = kFarMac;
  transport::Gid source = kFarIpv4;
  transport::Gid destination = kOurIpv4;
  uint8_t opcode = kRcSendOnly;
  transport::Qpn destination_qpn = QpOf(kAlice, 5);
  transport::Qpn source_qpn = {77};  // of datagrams
  std::vector<uint8_t> payload = std::vector<uint8_t>(4);

  std::vector<uint8_t> Build() const {
    const auto group_mac = MulticastMac(destination);
    const transport::FrameBuilder builder(
        source_mac, source,
        {.destination_gid = destination, .destination_mac = group_mac.value_or(kFarMac)}, 0xc123);
    transport::TransportHeaders headers;
    headers.opcode = *transport::ParseOpcode(opcode);
    headers.destination_qpn = destination_qpn;
    headers.deth = {.qkey = 0x11111111, .source_qpn = source_qpn};
    const transport::PayloadPiece piece = {payload.data(), payload.size()};
    std::vector<uint8_t> frame(transport::kMaxFrameBytes);
    frame.resize(builder.Emit(headers, {&piece, payload.empty() ? 0u : 1u}, frame));
    return frame;
  }
};

// From a process to the host beyond the wire.
inline RoceSpec ToWire(uint8_t opcode, transport::Qpn destination_qpn = {42}) {
  return {.source_mac = kOurMac,
          .source = kOurIpv4,
          .destination = kFarIpv4,
          .opcode = opcode,
          .destination_qpn = destination_qpn};
}
inline RoceSpec DatagramToWire(transport::Qpn source_qpn, transport::Qpn destination_qpn = {42}) {
  RoceSpec spec = ToWire(kUdSendOnly, destination_qpn);
  spec.source_qpn = source_qpn;
  return spec;
}
inline RoceSpec ToGroup(transport::Qpn source_qpn, const transport::Gid& group = kGroup) {
  RoceSpec spec = DatagramToWire(source_qpn, transport::kMulticastQpn);
  spec.destination = group;
  if (!group.IsIpv4Mapped()) spec.source = kOurIpv6;
  return spec;
}

using Mad = transport::cm::Attribute;
using transport::cm::MadSpec;

inline RoceSpec Management(const MadSpec& mad, RoceSpec spec) {
  spec.opcode = kUdSendOnly;
  spec.destination_qpn = spec.source_qpn = kManagementQpn;
  const auto bytes = mad.Build();
  spec.payload.assign(bytes.begin(), bytes.end());
  return spec;
}

// All connection requests for a service, at whatever address.
constexpr control::Listen ListenTo(uint64_t service_id) { return {{service_id, {}, 0}, 0, 1}; }

constexpr uint32_t CommunicationId(control::Block block, uint32_t number) {
  return block << (32 - transport::cm::Steering::kBlockBits) | number;
}

}  // namespace uroce::nic
