#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::transport {

// The invariant CRC of RoCEv2 (IBA CA17-22): a CRC-32 over eight bytes of ones, in the place of the
// LRH, which RoCEv2 lacks, and the packet from the IP header to the pad, with the fields that
// change on the way taken as ones.
inline constexpr size_t kIcrcBytes = 4;

// Whether frames carry their ICRC. Two processes that share memory, where nothing can corrupt a
// frame, may agree to waive it: its four bytes are then zero and not checked. They may waive the
// network headers, too: small frames of a connection are bare then (bare_frame.h).
enum class IcrcUse : uint8_t { kCarried, kWaived, kWaivedWithHeaders };

enum class IpVersion : uint8_t { kIpv4, kIpv6 };

// The CRC state after the first `bytes` bytes of a frame: from the Ethernet header to the end of
// the UDP header or any place behind the BTH. The frame is only read.
uint32_t StartIcrc(IpVersion version, const uint8_t* frame, size_t bytes);
// Continues the state behind the UDP header over `bytes` bytes that begin with the whole BTH.
uint32_t ContinueIcrc(uint32_t crc_state, const uint8_t* bth, size_t bytes);

// Writes the ICRC, least significant byte first.
void EmitIcrc(uint32_t crc_state, uint8_t* bytes);
// Whether the four bytes are the ICRC of a packet whose headers, payload and pad gave `crc_state`.
bool IcrcMatches(uint32_t crc_state, const uint8_t* bytes);
// The difference of the two, as AdvanceCrc32 and RewindCrc32 take it; 0 if they match.
uint32_t IcrcDifference(uint32_t crc_state, const uint8_t* bytes);

}  // namespace uroce::transport
