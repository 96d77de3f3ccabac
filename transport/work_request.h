#pragma once

#include <cstdint>
#include <span>

#include "transport/access.h"
#include "transport/address.h"
#include "transport/ids.h"
#include "transport/placement.h"

namespace uroce::transport {

// One piece of local memory. `address` is in the address space of the memory region that `lkey`
// names (the application's virtual addresses unless the region has an iova of its own).
struct ScatterGatherEntry {
  uint64_t address = 0;
  uint32_t length = 0;
  LKey lkey;
};

// The operation of a send work request. The values are those of enum ibv_wr_opcode.
enum class SendOpcode : uint8_t {
  kRdmaWrite = 0,
  kRdmaWriteWithImmediate = 1,
  kSend = 2,
  kSendWithImmediate = 3,
  kRdmaRead = 4,
  kCompareAndSwap = 5,
  kFetchAndAdd = 6,
  kLocalInvalidate = 7,
  kBindWindow = 8,
  kSendWithInvalidate = 9,
  kFlush = 14,
  kAtomicWrite = 15,
};

constexpr bool IsAtomic(SendOpcode op) {
  return op == SendOpcode::kCompareAndSwap || op == SendOpcode::kFetchAndAdd;
}
// The response carries data that is written to local memory.
constexpr bool ReturnsData(SendOpcode op) { return op == SendOpcode::kRdmaRead || IsAtomic(op); }
// Answered by a response of its own, not by an ACK: it takes one of max_rd_atomic.
constexpr bool HasOwnResponse(SendOpcode op) {
  return ReturnsData(op) || op == SendOpcode::kFlush || op == SendOpcode::kAtomicWrite;
}
constexpr bool IsSend(SendOpcode op) {
  return op == SendOpcode::kSend || op == SendOpcode::kSendWithImmediate ||
         op == SendOpcode::kSendWithInvalidate;
}
constexpr bool IsWrite(SendOpcode op) {
  return op == SendOpcode::kRdmaWrite || op == SendOpcode::kRdmaWriteWithImmediate;
}
// Takes a receive request of the peer.
constexpr bool TakesReceive(SendOpcode op) {
  return IsSend(op) || op == SendOpcode::kRdmaWriteWithImmediate;
}
// Done by the device alone; nothing goes on the wire and no PSN is used.
constexpr bool IsLocal(SendOpcode op) {
  return op == SendOpcode::kLocalInvalidate || op == SendOpcode::kBindWindow;
}

// The operands of kBindWindow: binds the window `present_rkey` to a range of a region.
struct WindowBinding {
  RKey present_rkey;
  LKey region;
  uint64_t address = 0;
  uint64_t length = 0;
  AccessFlags access;
};

// The fields that every send work request uses.
struct SendOperation {
  SendOpcode opcode = SendOpcode::kSend;
  bool signaled = false;
  bool solicited = false;
  bool fence = false;
};

// The fields that only some operations or services use.
struct SendOperands {
  uint32_t immediate = 0;       // four bytes as they go on the wire; never interpreted
  RKey invalidate_rkey;         // send with invalidate: a key of the peer; local invalidate: ours
  Srqn remote_srqn;             // XRC: the peer's shared receive queue
  uint64_t compare_or_add = 0;  // host byte order
  uint64_t swap = 0;            // host byte order
  Qpn remote_qpn;               // datagrams
  uint32_t remote_qkey = 0;     // datagrams; with the high bit set the QP's own is sent instead
  uint32_t flush_length = 0;    // kFlush of a range: bytes from remote_address on
  uint8_t placement = 0;        // kFlush: bits of Placement, at least one
  Selectivity selectivity = Selectivity::kRange;  // kFlush
  WindowBinding window;                           // kBindWindow
};

struct SendWorkRequest : SendOperation, SendOperands {
  uint64_t wr_id = 0;
  uint64_t remote_address = 0;  // RDMA, atomics, FLUSH
  RKey rkey;                    // RDMA, atomics, FLUSH: the peer's; bind: the window's new key
  // With `inline_data` the bytes at sges[i].address are copied before the call returns and the
  // keys are ignored.
  bool inline_data = false;
  std::span<const ScatterGatherEntry> sges;
  // Where a datagram goes, by the rules of a queue pair's address. Copied before the call returns.
  const AddressVector* address = nullptr;
  // The address is of another protection domain than the queue pair.
  bool has_foreign_address = false;
};

// The most common send work request: a SEND or WRITE of RC from one piece of memory, not inline,
// without immediate data and without fence.
struct PlainSendRequest {
  SendOpcode opcode = SendOpcode::kSend;  // kSend or kRdmaWrite
  bool signaled = false;
  bool solicited = false;
  uint64_t wr_id = 0;
  ScatterGatherEntry piece{};   // of at least one byte
  uint64_t remote_address = 0;  // kRdmaWrite
  RKey rkey{};                  // kRdmaWrite
};

struct ReceiveWorkRequest {
  uint64_t wr_id = 0;
  std::span<const ScatterGatherEntry> sges;
};

}  // namespace uroce::transport
