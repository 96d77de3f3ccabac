#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

// Every counter is one row of a table, from which the fields, the names in `uroce status` and in
// JSON, and the page of counters are made. Counts only grow.
namespace uroce::transport {

// Counters of a queue pair: ROW(field, name in Linux's hw_counters or "", meaning).
#define UROCE_QUEUE_PAIR_COUNTERS(ROW)                                                             \
  ROW(transmitted_packets, "", "packets sent; a packet that is sent again counts again")           \
  ROW(transmitted_bytes, "", "bytes of the frames that carried them")                              \
  ROW(received_packets, "", "packets received; of a queue pair only those of its peer")            \
  ROW(received_bytes, "", "bytes of the frames that carried them")                                 \
  ROW(retransmitted_packets, "", "packets sent again")                                             \
  ROW(ack_timeouts, "local_ack_timeout_err", "ACK timeouts that ran out")                          \
  ROW(probes, "", "packets sent again long before the ACK timeout, to find out what was lost")     \
  ROW(retries_exceeded, "req_transport_retries_exceeded", "requests that failed for want of ACKs") \
  ROW(psn_naks_received, "packet_seq_err", "NAKs for a PSN sequence error received")               \
  ROW(implied_naks, "implied_nak_seq_err", "responses that came after a lost response")            \
  ROW(rnr_naks_received, "rnr_nak_retry_err", "RNR NAKs received: the peer had no receive posted") \
  ROW(rnr_retries_exceeded, "", "requests that failed after too many RNR NAKs")                    \
  ROW(psn_naks_sent, "out_of_sequence", "NAKs for a PSN sequence error sent: a packet was lost")   \
  ROW(early_packets, "", "requests kept because an earlier one was missing")                       \
  ROW(rnr_naks_sent, "", "RNR NAKs sent: no receive was posted")                                   \
  ROW(error_naks_sent, "", "NAKs sent that end the connection")                                    \
  ROW(duplicate_requests, "duplicate_request", "requests received again after their answer")       \
  ROW(memory_gone, "", "accesses to registered memory that was unmapped, protected or truncated")

// Why a received frame was not acted on, in the order of the checks: ROW(reason, name, meaning).
// First the frame by itself.
#define UROCE_WIRE_DROPS(ROW)                                                                      \
  ROW(kTooShort, "too_short", "ends before its headers do")                                        \
  ROW(kNotIp, "not_ip", "EtherType is neither IPv4 nor IPv6")                                      \
  ROW(kBadIpHeader, "bad_ip_header", "version, header length, total length, checksum or fragment") \
  ROW(kNotRoce, "not_roce", "not UDP to port 4791")                                                \
  ROW(kBadUdpLength, "bad_udp_length", "UDP length does not fit the packet")                       \
  ROW(kBadBthVersion, "bad_bth_version", "TVer is not 0")                                          \
  ROW(kUnknownOpcode, "unknown_opcode", "no operation has this opcode")                            \
  ROW(kBadPadding, "bad_padding",                                                                  \
      "pad count larger than the payload or not making it a multiple of 4, or a payload where "    \
      "the opcode has none")                                                                       \
  ROW(kBadIcrc, "bad_icrc", "invariant CRC is wrong")

// Then whether the frame is for this endpoint.
#define UROCE_ENDPOINT_DROPS(ROW)                                                               \
  ROW(kNoFlow, "no_flow", "not RoCEv2, and none of the existing flows takes it")                \
  ROW(kForeignDestination, "foreign_destination", "destination address is not one of our GIDs") \
  ROW(kBadPkey, "bad_pkey", "partition is not one of ours")                                     \
  ROW(kUnknownQp, "unknown_qp", "no queue pair has this number")                                \
  ROW(kWrongService, "wrong_service",                                                           \
      "another service, a request to an XRC initiator, a response to an XRC target")            \
  ROW(kForeignSource, "foreign_source", "not from the peer the queue pair is connected to")     \
  ROW(kNotAMember, "not_a_member", "to a multicast group that no queue pair of ours is attached to")

// Then what the queue pair says.
#define UROCE_QUEUE_PAIR_DROPS(ROW)                                                              \
  ROW(kQpNotReady, "qp_not_ready", "state of the queue pair takes no packets of this kind")      \
  ROW(kDuplicateRequest, "duplicate_request",                                                    \
      "a request before the expected PSN: its response is sent again")                           \
  ROW(kDuplicateNotHeld, "duplicate_not_held",                                                   \
      "a duplicate without a response: an old atomic, a forbidden READ, no room")                \
  ROW(kSequenceGap, "sequence_gap",                                                              \
      "a request beyond the expected PSN; the first one of a gap makes a NAK")                   \
  ROW(kBadQkey, "bad_qkey", "a datagram with another Q_Key than the queue pair's")               \
  ROW(kReceiverNotReady, "receiver_not_ready",                                                   \
      "no receive request: RC answers with an RNR NAK, UC and UD drop the message")              \
  ROW(kMessageTooLong, "message_too_long",                                                       \
      "UC, UD: longer than the receive request, which waits for the next message; UD: longer "   \
      "than the port's MTU")                                                                     \
  ROW(kTornMessage, "torn_message", "UC: a packet of the same message was lost before this one") \
  ROW(kRefused, "refused",                                                                       \
      "a request that breaks a rule: RC answers with a NAK and ends the connection")             \
  ROW(kUnknownSrq, "unknown_srq",                                                                \
      "XRC: the domain has no shared receive queue of this number; RC answers as to `refused`")  \
  ROW(kStaleResponse, "stale_response", "a response to a PSN that is not outstanding")           \
  ROW(kOutOfOrderResponse, "out_of_order_response",                                              \
      "a READ response or ACK after a lost response")                                            \
  ROW(kMalformedResponse, "malformed_response", "wrong length or opcode for the request it answers")

enum class DropReason : uint8_t {
  kNone,
#define UROCE_REASON(reason, name, meaning) reason,
  UROCE_WIRE_DROPS(UROCE_REASON) UROCE_ENDPOINT_DROPS(UROCE_REASON)
      UROCE_QUEUE_PAIR_DROPS(UROCE_REASON)
#undef UROCE_REASON
          kCount,
};
inline constexpr size_t kDropReasons = static_cast<size_t>(DropReason::kCount);

// Whether the frame got as far as its queue pair.
constexpr bool IsOfQueuePair(DropReason reason) {
  return reason == DropReason::kNone || reason >= DropReason::kQpNotReady;
}

#define UROCE_FIELD(field, linux_name, meaning) uint64_t field = 0;

struct QueuePairCounters {
  UROCE_QUEUE_PAIR_COUNTERS(UROCE_FIELD)
};

// The counters of an endpoint: those of its queue pairs together, and the frames that it dropped.
struct Counters {
  UROCE_QUEUE_PAIR_COUNTERS(UROCE_FIELD)
  std::array<uint64_t, kDropReasons> dropped{};

  uint64_t& drops(DropReason reason) { return dropped[static_cast<size_t>(reason)]; }
  uint64_t drops(DropReason reason) const { return dropped[static_cast<size_t>(reason)]; }
  Counters& operator+=(const QueuePairCounters& other);
};

#undef UROCE_FIELD

// How a counter is shown.
struct CounterName {
  std::string_view name;
  std::string_view linux_name;  // in hw_counters; empty if Linux has none
  std::string_view meaning;
};

struct QueuePairCounterRow : CounterName {
  uint64_t QueuePairCounters::*of_queue_pair;
  uint64_t Counters::*of_endpoint;
};

inline constexpr QueuePairCounterRow kQueuePairCounters[] = {
#define UROCE_ROW(field, linux_name, meaning) \
  {{#field, linux_name, meaning}, &QueuePairCounters::field, &Counters::field},
    UROCE_QUEUE_PAIR_COUNTERS(UROCE_ROW)
#undef UROCE_ROW
};

// By the number of the reason.
inline constexpr std::array<CounterName, kDropReasons> kDropNames = {
    {{"none", "", "acted on"},
#define UROCE_ROW(reason, name, meaning) {name, "", meaning},
     UROCE_WIRE_DROPS(UROCE_ROW) UROCE_ENDPOINT_DROPS(UROCE_ROW) UROCE_QUEUE_PAIR_DROPS(UROCE_ROW)
#undef UROCE_ROW
    }};

constexpr std::string_view Name(DropReason reason) {
  return reason < DropReason::kCount ? kDropNames[static_cast<size_t>(reason)].name : "unknown";
}

inline Counters& Counters::operator+=(const QueuePairCounters& other) {
  for (const QueuePairCounterRow& row : kQueuePairCounters) {
    this->*row.of_endpoint += other.*row.of_queue_pair;
  }
  return *this;
}

}  // namespace uroce::transport
