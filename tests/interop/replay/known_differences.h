#pragma once

#include <cstdint>
#include <string_view>

#include "transport/completion.h"

// The places where we answer a request of a capture differently from rxe, or complete less than rxe
// did, and why that is right. Exactly the listed differences must occur.
namespace uroce::transport::interop {

struct KnownDifference {
  std::string_view capture;
  uint32_t frame;  // rxe's answer; the request's if rxe has sent none
  std::string_view ours;
  std::string_view theirs;
  std::string_view why;
};

// The RNR NAK has named the PSN that the responder waits for. Until that arrives, the responder
// drops later requests silently, as after every NAK.
inline constexpr std::string_view kOneNak = "IBA 9.7.5.2: one NAK, then silence until that PSN";
// A READ that is resumed in the middle is a READ of its own, whose response starts with a first
// packet.
inline constexpr std::string_view kReadIsExecutedAgain =
    "IBA 9.7.5.1.4: a duplicate READ is executed as it stands in the request";
// Not a difference of the protocol: rxe's queue pair had been destroyed.
inline constexpr std::string_view kQueuePairWasGone =
    "rxe's application had left; ours stays until the end of the capture";

inline constexpr KnownDifference kKnownDifferences[] = {
    {"15-rstream-write-imm.pcap", 38, "RC_ACKNOWLEDGE psn 8 ack(credits=31 msn=9)", "nothing",
     kQueuePairWasGone},
    {"23-loss-read-resp.tapA.pcap", 21, "RC_READ_RESPONSE_FIRST psn 5 ack(credits=31 msn=2) 1024B",
     "RC_READ_RESPONSE_MIDDLE psn 5 1024B", kReadIsExecutedAgain},
    {"26-rnr-nak.pcap", 20, "nothing", "RC_ACKNOWLEDGE psn 2 nak(psn_sequence_error msn=2)",
     kOneNak},
    {"26-rnr-nak.pcap", 39, "nothing", "RC_ACKNOWLEDGE psn 5 nak(psn_sequence_error msn=5)",
     kOneNak},
    {"26-rnr-nak.pcap", 54, "nothing", "RC_ACKNOWLEDGE psn 7 nak(psn_sequence_error msn=7)",
     kOneNak},
    {"26-rnr-nak.pcap", 67, "nothing", "RC_ACKNOWLEDGE psn 9 nak(psn_sequence_error msn=9)",
     kOneNak},
    {"26-rnr-nak.pcap", 78, "nothing", "RC_ACKNOWLEDGE psn 11 nak(psn_sequence_error msn=11)",
     kOneNak},
    {"26-rnr-nak.pcap", 87, "nothing", "RC_ACKNOWLEDGE psn 13 nak(psn_sequence_error msn=13)",
     kOneNak},
    {"26-rnr-nak.pcap", 116, "nothing", "RC_ACKNOWLEDGE psn 19 nak(psn_sequence_error msn=19)",
     kOneNak},
    {"26-rnr-nak.pcap", 133, "nothing", "RC_ACKNOWLEDGE psn 21 nak(psn_sequence_error msn=21)",
     kOneNak},
    {"26-rnr-nak.pcap", 148, "nothing", "RC_ACKNOWLEDGE psn 23 nak(psn_sequence_error msn=23)",
     kOneNak},
    {"26-rnr-nak.pcap", 161, "nothing", "RC_ACKNOWLEDGE psn 25 nak(psn_sequence_error msn=25)",
     kOneNak},
    {"26-rnr-nak.pcap", 172, "nothing", "RC_ACKNOWLEDGE psn 27 nak(psn_sequence_error msn=27)",
     kOneNak},
    {"26-rnr-nak.pcap", 181, "nothing", "RC_ACKNOWLEDGE psn 29 nak(psn_sequence_error msn=29)",
     kOneNak},
    {"26-rnr-nak.pcap", 198, "nothing", "RC_ACKNOWLEDGE psn 34 nak(psn_sequence_error msn=34)",
     kOneNak},
    {"26-rnr-nak.pcap", 211, "nothing", "RC_ACKNOWLEDGE psn 36 nak(psn_sequence_error msn=36)",
     kOneNak},
    {"26-rnr-nak.pcap", 219, "nothing", "RC_ACKNOWLEDGE psn 38 nak(psn_sequence_error msn=38)",
     kOneNak},
};

// Connections for whose last requests the capture has no responses.
struct Unfinished {
  std::string_view capture;
  size_t posted;
  size_t completed;
  CompletionStatus end;  // status of the next request
  std::string_view why;
};
inline constexpr Unfinished kUnfinished[] = {
    {"15-rstream-write-imm.pcap", 9, 8, CompletionStatus::kSuccess,
     "the peer's queue pair was gone before it acknowledged"},
    {"27-retry-exceeded.tapA.pcap", 2, 0, CompletionStatus::kRetryExceeded,
     "every packet is dropped; rxe takes a retry_cnt of 7 for ever"},
};

// Frames that were damaged on purpose, all in one capture. Their ICRC is wrong.
inline constexpr std::string_view kDamagedCapture = "30-netem-corrupt.pcap";
inline constexpr uint32_t kDamagedFrames[] = {2, 6, 8, 15, 33, 43, 46, 50};

}  // namespace uroce::transport::interop
