#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "dpdk_nic/link_layer/link_layer.h"
#include "dpdk_nic/port/packet_port.h"
#include "transport/address.h"
#include "transport/wire/frame_builder.h"
#include "transport/wire/frame_parser.h"
#include "transport/wire/icrc.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/opcode.h"

namespace uroce::nic {

// The addresses of a VethPair's ends.
inline constexpr transport::Gid kNear = transport::Gid::FromIpv4({10, 77, 0, 1});
inline constexpr transport::Gid kFar = transport::Gid::FromIpv4({10, 77, 0, 2});
inline constexpr transport::Gid kNear6 = {{0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
inline constexpr transport::Gid kFar6 = {{0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};

// A frame as the transport builds it.
struct UdpFrameSpec {
  transport::Gid source = transport::Gid::FromIpv4({10, 0, 0, 1});
  transport::Gid destination = transport::Gid::FromIpv4({10, 0, 0, 2});
  uint32_t psn = 0;
  uint32_t payload_bytes = 64;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 64;
  uint16_t source_port = 0xc123;
  transport::Qpn destination_qpn = {0x11};

  size_t Build(const transport::FrameRoom& out) const {
    const transport::FrameBuilder builder(
        {2, 0, 0, 0, 0, 1}, source,
        {.destination_gid = destination,
         .destination_mac = MulticastMac(destination).value_or(transport::MacAddress{}),
         .hop_limit = hop_limit,
         .traffic_class = traffic_class},
        source_port);
    transport::TransportHeaders headers;
    headers.opcode = *transport::ParseOpcode(0x04);  // RC SEND only
    headers.destination_qpn = destination_qpn;
    headers.psn = transport::Psn(psn);
    const std::vector<uint8_t> payload(payload_bytes, static_cast<uint8_t>(psn));
    const transport::PayloadPiece piece = {payload.data(), payload.size()};
    return builder.Emit(headers, {&piece, payload.empty() ? 0u : 1u}, out);
  }
  std::vector<uint8_t> Build() const {
    std::vector<uint8_t> frame(transport::kMaxFrameBytes);
    frame.resize(Build(frame));
    return frame;
  }
};

// Sends the frames in one burst.
inline void Send(PacketPort* port, const std::vector<UdpFrameSpec>& specs) {
  for (const UdpFrameSpec& spec : specs) {
    const auto room = port->AcquireTransmit(transport::Route::kWire);
    ASSERT_FALSE(room.empty());
    port->CommitTransmit(spec.Build(room));
  }
  port->Flush();
}

// The next frame, until the next call; without bytes when there is none now.
inline std::span<const uint8_t> ReceiveFrame(PacketPort* port) {
  static std::array<uint8_t, transport::kMaxFrameBytes> room;
  return port->ReceiveEthernet(room).bytes;
}

// Waits up to a minute until the port's wait_fd() is readable.
inline bool WaitFor(const PacketPort& port) {
  pollfd poller = {.fd = port.wait_fd(), .events = POLLIN, .revents = 0};
  return poll(&poller, 1, 60'000) == 1;
}

inline transport::DropReason JudgeFrame(std::span<const uint8_t> frame) {
  transport::Packet packet;
  return ParseFrame(frame, packet);
}

// The same IPv4 frame with another identification and its right checksums.
inline std::vector<uint8_t> WithIdentification(std::vector<uint8_t> frame, uint16_t id) {
  auto ip = *transport::ParseIpv4(&frame[14]);
  ip.identification = id;
  EmitIpv4(ip, &frame[14]);
  const size_t icrc_at = frame.size() - transport::kIcrcBytes;
  const uint32_t crc = StartIcrc(transport::IpVersion::kIpv4, frame.data(), icrc_at);
  transport::EmitIcrc(crc, &frame[icrc_at]);
  return frame;
}

}  // namespace uroce::nic
