#pragma once

#include <iosfwd>
#include <string>

#include "transport/wire/packet.h"

namespace uroce::transport {

// An IPv4-mapped GID as a.b.c.d, others as IPv6 (RFC 5952).
std::string ToString(const Gid& gid);

// "RC_WRITE_FIRST", "UD_SEND_ONLY_IMM": the names of the specification.
std::string ToString(const Opcode& opcode);

// One line a packet, for traces and failing tests:
//   10.0.0.1 > 10.0.0.2 RC_WRITE_FIRST qpn 0x11 psn 1234 ackreq reth(va=0x1000 rkey=0x100 len=8192)
//   4096B
// (without the line break). Fields with their usual value are left out.
std::string ToString(const Packet& packet);

// For GoogleTest's messages.
std::ostream& operator<<(std::ostream& out, const Packet& packet);

}  // namespace uroce::transport
