#pragma once

#include <cstdint>
#include <span>

#include "transport/ids.h"
#include "transport/wire/icrc.h"
#include "transport/wire/packet.h"

// The short way for the frames of an established connection, which are nearly all frames: what the
// ladder (frame_parser.h) and the checks of addresses and partition would find out rung by rung is
// compared with what is known to be right. A frame that is not as expected in any way has the
// ladder say why.
namespace uroce::transport {

// What the frames of a connection have in common, seen from the end that receives them.
struct ConnectionFrames {
  Service service = Service::kReliableConnection;
  Qpn destination_qpn;
  Gid source{};  // of the same IP version
  Gid destination{};
};

// The QPN in the BTH of a frame with an IP header as we send it; some number if it is another one.
// 0 if the frame is too short.
Qpn PeekDestinationQpn(std::span<const uint8_t> frame);

// Whether ParseFrame would take the frame, it is one of `expected`, and its partition is ours
// (IBA 10.9.3). If so, `packet` says what the packet brings: transport headers and payload, but no
// addresses, P_Key and other things that are as expected. If not, `packet` is undefined.
//
// The frame may lie in memory that another process can change: what is used is read once.
bool ParseConnectionFrame(std::span<const uint8_t> frame, const ConnectionFrames& expected,
                          IcrcCheck icrc_check, Packet& packet);

}  // namespace uroce::transport
