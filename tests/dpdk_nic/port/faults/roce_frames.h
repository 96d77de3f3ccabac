#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "transport/wire/frame_builder.h"
#include "transport/wire/frame_parser.h"
#include "transport/wire/opcode.h"

namespace uroce::nic {

// A RoCEv2 frame as the transport sends it: right lengths, checksums and ICRC.
struct FrameSpec {
  uint32_t qpn = 0x11;
  uint32_t psn = 0;
  uint8_t opcode = 0x04;  // RC SEND only
  uint32_t payload_bytes = 0;
  bool ipv6 = false;
  uint8_t traffic_class = 0;

  std::vector<uint8_t> Build() const {
    using transport::Gid;
    const auto gid = [this](uint8_t number) {
      return ipv6 ? Gid::LinkLocal({2, 0, 0, 0, 0, number}) : Gid::FromIpv4({10, 0, 0, number});
    };
    const transport::FrameBuilder builder(
        {2, 0, 0, 0, 0, 1}, gid(1), {.destination_gid = gid(2), .traffic_class = traffic_class},
        0xc123);
    transport::TransportHeaders headers;
    headers.opcode = *transport::ParseOpcode(opcode);
    headers.destination_qpn = {qpn};
    headers.psn = transport::Psn(psn);
    const std::vector<uint8_t> payload(payload_bytes, 0x5a);
    const transport::PayloadPiece piece = {payload.data(), payload.size()};
    std::vector<uint8_t> frame(transport::kMaxFrameBytes);
    frame.resize(builder.Emit(headers, {&piece, payload.empty() ? 0u : 1u}, frame));
    return frame;
  }
};

// The reason for which a receiver drops the frame; kNone if it accepts it.
inline transport::DropReason Judge(const std::vector<uint8_t>& frame) {
  transport::Packet packet;
  return ParseFrame(frame, packet);
}

}  // namespace uroce::nic
