#include "transport/counters.h"

namespace uroce::transport {

std::string_view Name(DropReason reason) {
  switch (reason) {
    case DropReason::kNone:
      return "none";
    case DropReason::kTooShort:
      return "too_short";
    case DropReason::kNotIp:
      return "not_ip";
    case DropReason::kBadIpHeader:
      return "bad_ip_header";
    case DropReason::kNotRoce:
      return "not_roce";
    case DropReason::kBadUdpLength:
      return "bad_udp_length";
    case DropReason::kBadBthVersion:
      return "bad_bth_version";
    case DropReason::kUnknownOpcode:
      return "unknown_opcode";
    case DropReason::kBadPadding:
      return "bad_padding";
    case DropReason::kBadIcrc:
      return "bad_icrc";
    case DropReason::kNoFlow:
      return "no_flow";
    case DropReason::kForeignDestination:
      return "foreign_destination";
    case DropReason::kBadPkey:
      return "bad_pkey";
    case DropReason::kUnknownQp:
      return "unknown_qp";
    case DropReason::kWrongService:
      return "wrong_service";
    case DropReason::kForeignSource:
      return "foreign_source";
    case DropReason::kNotAMember:
      return "not_a_member";
    case DropReason::kQpNotReady:
      return "qp_not_ready";
    case DropReason::kDuplicateRequest:
      return "duplicate_request";
    case DropReason::kDuplicateNotHeld:
      return "duplicate_not_held";
    case DropReason::kSequenceGap:
      return "sequence_gap";
    case DropReason::kBadQkey:
      return "bad_qkey";
    case DropReason::kMessageTooLong:
      return "message_too_long";
    case DropReason::kTornMessage:
      return "torn_message";
    case DropReason::kReceiverNotReady:
      return "receiver_not_ready";
    case DropReason::kRefused:
      return "refused";
    case DropReason::kUnknownSrq:
      return "unknown_srq";
    case DropReason::kStaleResponse:
      return "stale_response";
    case DropReason::kOutOfOrderResponse:
      return "out_of_order_response";
    case DropReason::kMalformedResponse:
      return "malformed_response";
    case DropReason::kCount:
      break;
  }
  return "unknown";
}

}  // namespace uroce::transport
