#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace uroce::transport {

// Why a received frame was not acted on, in the order of the checks.
enum class DropReason : uint8_t {
  kNone,
  // wire: the frame by itself
  kTooShort,     // ends before its headers do
  kNotIp,        // EtherType is neither IPv4 nor IPv6
  kBadIpHeader,  // version, header length, total length, checksum, fragment
  kNotRoce,      // not UDP to port 4791
  kBadUdpLength,
  kBadBthVersion,  // TVer is not 0
  kUnknownOpcode,
  kBadPadding,  // pad count larger than the payload or not making it a multiple of 4, or a
                // payload where the opcode has none
  kBadIcrc,
  // endpoint: is it for us
  kNoFlow,              // not RoCEv2, and none of the existing flows takes it
  kForeignDestination,  // the destination address is not one of our GIDs
  kBadPkey,
  kUnknownQp,
  kWrongService,   // another service, a request to an XRC initiator, a response to an XRC target
  kForeignSource,  // not from the peer the QP is connected to
  kNotAMember,     // to a multicast group that no queue pair of ours is attached to
  // queue pair
  kQpNotReady,        // the state of the QP takes no packets of this kind
  kDuplicateRequest,  // a request before the expected PSN: its response is sent again
  kDuplicateNotHeld,  // a duplicate without a response: an old atomic, a forbidden READ, no room
  kSequenceGap,       // a request beyond the expected PSN; the first one of a gap makes a NAK
  kBadQkey,           // a datagram with another Q_Key than the QP's
  kReceiverNotReady,  // no receive request: RC answers with an RNR NAK, UC and UD drop the message
  kMessageTooLong,    // UC, UD: longer than the receive request, which waits for the next message;
                      // UD: longer than the port's MTU
  kTornMessage,       // UC: a packet of the same message was lost before this one
  kRefused,           // a request that breaks a rule: RC answers with a NAK and ends the connection
  kUnknownSrq,        // XRC: the domain has no shared receive queue of this number; like kRefused
  kStaleResponse,     // a response to a PSN that is not outstanding
  kOutOfOrderResponse,  // a READ response or ACK after a lost response
  kMalformedResponse,   // wrong length or opcode for the request it answers
  kCount,
};

std::string_view Name(DropReason reason);

// Counts since the endpoint was created. A comment gives the counter's name in Linux's hw_counters
// where there is one.
struct Counters {
  uint64_t transmitted_packets = 0;
  uint64_t transmitted_bytes = 0;  // of frames
  uint64_t received_packets = 0;
  uint64_t received_bytes = 0;
  std::array<uint64_t, static_cast<size_t>(DropReason::kCount)> dropped{};

  uint64_t retransmitted_packets = 0;
  uint64_t ack_timeouts = 0;       // local_ack_timeout_err
  uint64_t probes = 0;             // packets sent again long before the ACK timeout
  uint64_t retries_exceeded = 0;   // req_transport_retries_exceeded
  uint64_t psn_naks_received = 0;  // packet_seq_err
  uint64_t implied_naks = 0;       // implied_nak_seq_err
  uint64_t rnr_naks_received = 0;  // rnr_nak_retry_err
  uint64_t rnr_retries_exceeded = 0;
  uint64_t psn_naks_sent = 0;  // out_of_sequence
  uint64_t rnr_naks_sent = 0;
  uint64_t error_naks_sent = 0;
  uint64_t duplicate_requests = 0;  // duplicate_request
  // Accesses to registered memory that was unmapped, protected or truncated since.
  uint64_t memory_gone = 0;

  uint64_t& drops(DropReason reason) { return dropped[static_cast<size_t>(reason)]; }
  uint64_t drops(DropReason reason) const { return dropped[static_cast<size_t>(reason)]; }
};

}  // namespace uroce::transport
