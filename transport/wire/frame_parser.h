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
// The frame may lie in memory that another process can change: what is parsed is a private copy of
// the headers, made once. Only the checksum reads the frame itself.
//
// With IcrcCheck::kDone the ICRC is not checked: the caller has found it right, in memory that no
// other process can change. With IcrcCheck::kWaived there is none.
//
// Returns kNone and fills `packet`, or why the frame is to be dropped, silently (IBA CA17-24);
// `packet` is then undefined.
DropReason ParseFrame(std::span<const uint8_t> frame, Packet& packet,
                      IcrcCheck icrc_check = IcrcCheck::kNeeded);

}  // namespace uroce::transport
