#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "transport/completion.h"
#include "transport/wire/opcode.h"
#include "transport/work_request.h"

namespace uroce::transport {

// One row an operation of send work requests: the post, the packets and the completion.
struct SendOperationRow {
  SendOpcode opcode{};
  Offer offer{};  // IBA 11.4.1.1
  CompletionOpcode completion{};
  Operation operation = Operation::kSend;  // of the packets; a local operation has none
  Suffix suffix = Suffix::kNone;           // of the last packet
  bool has_operands = true;                // uses SendOperands
};

inline constexpr SendOperationRow kSendOperations[] = {
    {SendOpcode::kSend, Offer::kAll, CompletionOpcode::kSend, Operation::kSend, Suffix::kNone,
     /*has_operands=*/false},
    {SendOpcode::kSendWithImmediate, Offer::kAll, CompletionOpcode::kSend, Operation::kSend,
     Suffix::kImmediate},
    // UC has no opcode for it.
    {SendOpcode::kSendWithInvalidate, Offer::kReliable, CompletionOpcode::kSend, Operation::kSend,
     Suffix::kInvalidate},
    {SendOpcode::kRdmaWrite, Offer::kConnections, CompletionOpcode::kRdmaWrite, Operation::kWrite,
     Suffix::kNone, /*has_operands=*/false},
    {SendOpcode::kRdmaWriteWithImmediate, Offer::kConnections, CompletionOpcode::kRdmaWrite,
     Operation::kWrite, Suffix::kImmediate},
    {SendOpcode::kRdmaRead, Offer::kReliable, CompletionOpcode::kRdmaRead, Operation::kReadRequest,
     Suffix::kNone, /*has_operands=*/false},
    {SendOpcode::kCompareAndSwap, Offer::kReliable, CompletionOpcode::kCompareAndSwap,
     Operation::kCompareAndSwap},
    {SendOpcode::kFetchAndAdd, Offer::kReliable, CompletionOpcode::kFetchAndAdd,
     Operation::kFetchAndAdd},
    {SendOpcode::kFlush, Offer::kReliable, CompletionOpcode::kFlush, Operation::kFlush},
    {SendOpcode::kAtomicWrite, Offer::kReliable, CompletionOpcode::kAtomicWrite,
     Operation::kAtomicWrite},
    {SendOpcode::kLocalInvalidate, Offer::kConnections, CompletionOpcode::kLocalInvalidate},
    {SendOpcode::kBindWindow, Offer::kConnections, CompletionOpcode::kBindWindow},
};

inline constexpr size_t kSendOpcodes = static_cast<size_t>(SendOpcode::kAtomicWrite) + 1;

// The row of an opcode that has one.
inline const SendOperationRow& RowOf(SendOpcode opcode) {
  static constexpr auto kByOpcode = [] {
    std::array<SendOperationRow, kSendOpcodes> by_opcode{};
    for (const SendOperationRow& row : kSendOperations) {
      by_opcode[static_cast<size_t>(row.opcode)] = row;
    }
    return by_opcode;
  }();
  return kByOpcode[static_cast<size_t>(opcode)];
}

// The opcodes whose rows fulfil `condition`, one bit a SendOpcode.
template <class Condition>
constexpr uint32_t SendOpcodesWith(Condition condition) {
  uint32_t bits = 0;
  for (const SendOperationRow& row : kSendOperations) {
    if (condition(row)) bits |= 1u << static_cast<uint32_t>(row.opcode);
  }
  return bits;
}

}  // namespace uroce::transport
