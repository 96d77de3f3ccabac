#pragma once

#include <cstdint>
#include <span>

#include "transport/counters.h"
#include "transport/wire/icrc.h"
#include "transport/wire/packet.h"

namespace uroce::transport {

// Parses an Ethernet frame (without FCS, possibly with trailing Ethernet padding) that should hold
// one RoCEv2 packet over IPv4 or IPv6, and verifies everything that can be verified without knowing
// the queue pair: lengths, IPv4 header checksum, UDP port, BTH version, opcode, pad count, ICRC.
//
// The frame may lie in memory that another process can change: each header is read once, and only
// the checksum reads it again. `icrc` says whether it has an ICRC.
//
// Returns kNone and fills `packet`, or why the frame is to be dropped, silently (IBA CA17-24);
// `packet` is then undefined.
DropReason ParseFrame(std::span<const uint8_t> frame, Packet& packet,
                      IcrcUse icrc = IcrcUse::kCarried);

}  // namespace uroce::transport
