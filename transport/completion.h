#pragma once

#include <cstdint>

#include "transport/ids.h"

namespace uroce::transport {

// How a work request ended. The values are those of enum ibv_wc_status.
enum class CompletionStatus : uint8_t {
  kSuccess = 0,
  kLocalLengthError = 1,
  kLocalQpOperationError = 2,
  kLocalProtectionError = 4,
  kFlushed = 5,
  kMemoryManagementError = 6,  // IBV_WC_MW_BIND_ERR: a binding, or an invalidation
  kBadResponse = 7,
  kLocalAccessError = 8,
  kRemoteInvalidRequest = 9,
  kRemoteAccessError = 10,
  kRemoteOperationError = 11,
  kRetryExceeded = 12,
  kRnrRetryExceeded = 13,
  kRemoteAborted = 16,
  kFatal = 19,
  kGeneralError = 21,
};

// The operation that completed. The values are those of enum ibv_wc_opcode.
enum class CompletionOpcode : uint8_t {
  kSend = 0,
  kRdmaWrite = 1,
  kRdmaRead = 2,
  kCompareAndSwap = 3,
  kFetchAndAdd = 4,
  kBindWindow = 5,
  kLocalInvalidate = 6,
  kFlush = 8,
  kAtomicWrite = 9,
  kReceive = 128,
  kReceiveRdmaWithImmediate = 129,
};

// The cause of an error status, for diagnosis: ibv_wc.vendor_err.
enum class VendorError : uint16_t {
  kNone = 0,
  kAckTimeout = 1,         // retry_cnt used up by ACK timeouts
  kPsnNakRetries = 2,      // retry_cnt used up by NAKs (PSN sequence error)
  kRnrRetries = 3,         // rnr_retry used up
  kNakInvalidRequest = 4,  // the peer refused the request
  kNakRemoteAccess = 5,
  kNakRemoteOperation = 6,
  kLocalKeyInvalid = 7,     // an SGE's lkey, range or access is wrong
  kReceiveTooSmall = 8,     // the message is longer than the receive request
  kNoReadCredits = 10,      // READ, atomic or FLUSH on a QP whose max_rd_atomic is 0
  kWindowBind = 11,         // region, range, access or key do not permit the binding
  kInvalidateKey = 12,      // the key to invalidate is not ours, or not a bound window's
  kFlushedByError = 13,     // the QP went to ERR because of another request
  kFlushedByUser = 14,      // the application moved the QP to ERR
  kPeerBrokeRule = 15,      // a request of the peer was refused while this receive was in use
  kDatagramTooLong = 16,    // longer than the MTU of the port
  kMessageTorn = 17,        // a packet of the message was lost (UC on a shared receive queue)
  kMemoryGone = 18,         // a registered page was unmapped or protected since
  kWrongResponse = 19,      // opcode or length of a response are not what the request calls for
  kPeerGone = 20,           // the peer's process, on the same host, has ended
  kImpossibleRequest = 21,  // the service lacks the operation, or the address handle is not ours
};

// The IP version of a received datagram. The values are those that hardware reports in ibv_wc.sl;
// from them programs learn where in the 40 bytes before the payload the IP header lies.
enum class DatagramIp : uint8_t {
  kNone = 0,  // no datagram was received
  kIpv6 = 1,
  kIpv4 = 2,
};

// One completion queue entry.
struct Completion {
  // The bits of enum ibv_wc_flags.
  static constexpr uint8_t kHasGrh = 1 << 0;
  static constexpr uint8_t kHasImmediate = 1 << 1;
  static constexpr uint8_t kHasInvalidate = 1 << 3;

  uint64_t wr_id = 0;
  CompletionStatus status = CompletionStatus::kSuccess;
  CompletionOpcode opcode = CompletionOpcode::kSend;
  uint8_t flags = 0;
  DatagramIp datagram_ip = DatagramIp::kNone;
  VendorError vendor_error = VendorError::kNone;
  bool solicited = false;          // set by the queue: raises an event armed for solicited ones
  uint32_t byte_length = 0;        // for a datagram including the GRH before it
  uint32_t immediate_or_rkey = 0;  // wire bytes of the immediate, or the invalidated rkey
  Qpn qpn;
  Qpn source_qpn;
};

}  // namespace uroce::transport
