#include "tests/system/mover/completion_check.h"

#include <arpa/inet.h>

#include <sstream>
#include <stdexcept>

namespace mover {
namespace {

ibv_wc_opcode SendCompletionOpcode(Kind kind) {
  switch (kind) {
    case Kind::kSend:
    case Kind::kSendImmediate:
    case Kind::kSendInvalidate:
      return IBV_WC_SEND;
    case Kind::kWrite:
    case Kind::kWriteImmediate:
      return IBV_WC_RDMA_WRITE;
    case Kind::kRead:
      return IBV_WC_RDMA_READ;
    case Kind::kCompareSwap:
      return IBV_WC_COMP_SWAP;
    case Kind::kFetchAdd:
      return IBV_WC_FETCH_ADD;
    case Kind::kBindWindow:
      return IBV_WC_BIND_MW;
    case Kind::kLocalInvalidate:
      break;
  }
  return IBV_WC_LOCAL_INV;
}

void Expect(uint64_t found, uint64_t expected, const char* what, const std::string& where) {
  if (found == expected) return;
  std::ostringstream sentence;
  sentence << where << ": " << what << " is 0x" << std::hex << found << " instead of 0x"
           << expected;
  throw std::runtime_error(sentence.str());
}

void ExpectSuccess(const ibv_wc& completion, const std::string& where) {
  if (completion.status == IBV_WC_SUCCESS) return;
  throw std::runtime_error(where + ": completed with '" + ibv_wc_status_str(completion.status) +
                           "'");
}

}  // namespace

void CheckSendCompletion(const ibv_wc& completion, const Operation& operation,
                         const std::string& where) {
  ExpectSuccess(completion, where);
  Expect(completion.wr_id, operation.wr_id, "wr_id", where);
  Expect(completion.opcode, SendCompletionOpcode(operation.kind), "opcode", where);
  // byte_len is defined for READ and atomics only (IBA 11.4.2.1).
  if (operation.kind == Kind::kRead || IsAtomic(operation.kind)) {
    Expect(completion.byte_len, operation.length, "byte_len", where);
  }
}

void CheckReceiveCompletion(const ibv_wc& completion, const Operation& operation,
                            std::optional<uint32_t> invalidated_rkey, const std::string& where) {
  ExpectSuccess(completion, where);
  Expect(completion.wr_id, ReceiveWrId(operation), "wr_id", where);
  const bool is_write = operation.kind == Kind::kWriteImmediate;
  Expect(completion.opcode, is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV, "opcode", where);
  Expect(completion.byte_len, operation.length, "byte_len", where);

  const bool has_immediate = (completion.wc_flags & IBV_WC_WITH_IMM) != 0;
  Expect(has_immediate, HasImmediate(operation.kind), "IBV_WC_WITH_IMM", where);
  if (has_immediate) {
    Expect(ntohl(completion.imm_data), operation.immediate, "imm_data", where);
  }
  const bool has_invalidated = (completion.wc_flags & IBV_WC_WITH_INV) != 0;
  const bool is_told = operation.kind == Kind::kSendInvalidate && invalidated_rkey.has_value();
  Expect(has_invalidated, is_told, "IBV_WC_WITH_INV", where);
  if (has_invalidated) {
    Expect(completion.invalidated_rkey, *invalidated_rkey, "invalidated_rkey", where);
  }
}

uint64_t ReceiveWrId(const Operation& operation) { return ~operation.wr_id; }

}  // namespace mover
