#pragma once

#include <cstdint>

// Every bound of the device in one place. ibv_query_device reports these and they are enforced.
namespace uroce::transport {

inline constexpr uint32_t kMaxQps = 16'384;  // one block of QPNs, of which a host has 1,024
inline constexpr uint32_t kMaxQpWorkRequests = 1 << 20;  // as of rdma_rxe
inline constexpr uint32_t kMaxSges = 32;
inline constexpr uint32_t kMaxSrqs = 65'536;
inline constexpr uint32_t kMaxSrqWorkRequests = 32'768;
inline constexpr uint32_t kMaxMulticastGroups = 8'192;
inline constexpr uint32_t kMaxMulticastMembers = 256;  // queue pairs a group
inline constexpr uint32_t kMaxInlineBytes = 1'024;     // copied into the send queue at post time
inline constexpr uint32_t kMinInlineBytes = 256;       // granted to every queue pair
inline constexpr uint32_t kMaxCqs = 65'536;
inline constexpr uint32_t kMaxCqEntries = 1 << 22;
inline constexpr uint32_t kMaxMemoryRegions = 1 << 20;
inline constexpr uint32_t kMaxProtectionDomains = 32'768;
inline constexpr uint32_t kMaxRateKbps = 100'000'000;  // rate that the port reports
inline constexpr uint32_t kMaxReadAtomics = 128;       // responder resources a QP; 8 bits in verbs
inline constexpr uint64_t kMaxMessageBytes = 1ull << 31;  // IBA C9-94

// Bytes before the payload of a datagram in the receive buffer: an IPv6 header, or 20 unwritten
// bytes and an IPv4 header (IBA A17.4.5.2).
inline constexpr uint32_t kGrhBytes = 40;

// From a message's arrival to its ACK on the wire, 4.096 us * 2^n. An ACK waits at worst for the
// scheduler to give the process a processor: 134 ms, the figure other software devices give.
inline constexpr uint8_t kLocalCaAckDelay = 15;

// Packets in flight a QP without congestion control. Above the bandwidth-delay product of a
// 100 Gbit/s rack at MTU 4096, and below the 2^23 that 24-bit PSNs allow (IBA 9.7.1).
inline constexpr uint32_t kMaxPacketsInFlight = 256;
// The most with congestion control: 1 Gbit/s over 100 ms at MTU 1024.
inline constexpr uint32_t kMaxCongestionWindow = 16'384;
// An ACK is asked for at least this often, so that the window moves before it is used up.
inline constexpr uint32_t kAckRequestInterval = kMaxPacketsInFlight / 8;
// Longest READ of one request packet, 2^22 packets. A message of 2^31 bytes at MTU 256 has 2^23
// packets, the whole PSN window; half of that keeps "before" and "after" unambiguous.
inline constexpr uint8_t kLongestReadPieceLog2 = 22;
// Shortest piece of a READ on a network: 4 packets. The queue of a bottleneck takes such a burst.
inline constexpr uint8_t kShortestReadPieceLog2 = 2;
// Packets that are sent again at once when a loss is known; every one that is acknowledged lets two
// more follow.
inline constexpr uint32_t kFirstResendWindow = 16;
// Requests that an engine's queue pairs keep together while an earlier one is missing. One queue
// pair takes half of them: more than the bandwidth-delay product of 1 Gbit/s and 40 ms.
inline constexpr uint32_t kReorderPackets = 16'384;
// Frames a QP may emit before the next QP has its turn.
inline constexpr uint32_t kTransmitQuantum = 16;

}  // namespace uroce::transport
