#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/endpoint_config.h"
#include "transport/ids.h"
#include "transport/route.h"
#include "transport/wire/frame_builder.h"
#include "transport/wire/packet.h"

namespace uroce::transport {

// The frames by which an XRC target has requests executed in another process of its host. They go
// by the link of the two processes, and are XRC requests with three differences:
//
//   - The destination is kXrcRelayGid. No queue pair has that address.
//   - The UDP source port names the target: the queue pairs of a process differ in 14 bits.
//   - The PSNs count what the target has sent to this process.
//
// The answers are ordinary XRC responses to the target.

// An address of the discard-only block (RFC 6666), which nothing routes.
inline constexpr Gid kXrcRelayGid = {{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x47, 0x91}};

// The payload of a SEND to shared receive queue 0: begins or ends the stream of a target. The next
// request has the PSN of the beginning. In host byte order, as both ends are on one host.
struct XrcStreamChange {
  static constexpr Srqn kSrqn{0};

  XrcKey key;       // of the target's domain
  uint64_t epoch;   // differs between the streams of a process
  Gid gid;          // an address of the target's process
  Qpn target;       // the sender of the stream
  uint32_t begins;  // 1 or 0
  uint32_t mtu;     // path MTU of the target, an Mtu
  uint32_t unused = 0;
};

// The builder of these frames; `target` is a queue pair of this process.
FrameBuilder XrcRelayBuilder(const EndpointConfig& config, Qpn target);
// Builds a frame with the change, for the process at the other end of `to`; returns its length.
size_t EmitXrcStreamChange(const FrameBuilder& builder, const XrcStreamChange& change, Psn psn,
                           Route to, const FrameRoom& out);

// Whether a packet is one of these. Only a link carries them.
inline bool IsXrcRelayed(const Packet& packet) {
  return packet.flow.destination == kXrcRelayGid && IsLink(packet.from);
}
// The target that sent the packet, which is one of these.
Qpn XrcTargetOf(const Packet& packet);
// nullopt if the packet, which is one of these, is a request.
std::optional<XrcStreamChange> ReadXrcStreamChange(const Packet& packet);

}  // namespace uroce::transport
