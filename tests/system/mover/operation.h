#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace mover {

inline constexpr uint32_t kMaxSges = 32;
inline constexpr uint32_t kMaxInlineBytes = 256;
inline constexpr uint32_t kAtomicBytes = 8;

enum class Kind : uint8_t {
  kSend,
  kSendImmediate,
  kSendInvalidate,
  kWrite,
  kWriteImmediate,
  kRead,
  kCompareSwap,
  kFetchAdd,
  kBindWindow,
  kLocalInvalidate,
};

inline constexpr std::array<std::string_view, 10> kKindNames = {
    "send", "send_imm",     "send_inv",  "write",       "write_imm",
    "read", "compare_swap", "fetch_add", "bind_window", "local_inv",
};

constexpr std::string_view NameOf(Kind kind) { return kKindNames[static_cast<size_t>(kind)]; }

constexpr bool IsSend(Kind kind) {
  return kind == Kind::kSend || kind == Kind::kSendImmediate || kind == Kind::kSendInvalidate;
}
constexpr bool IsWrite(Kind kind) { return kind == Kind::kWrite || kind == Kind::kWriteImmediate; }
constexpr bool IsAtomic(Kind kind) { return kind == Kind::kCompareSwap || kind == Kind::kFetchAdd; }
constexpr bool IsLocal(Kind kind) {
  return kind == Kind::kBindWindow || kind == Kind::kLocalInvalidate;
}
constexpr bool HasImmediate(Kind kind) {
  return kind == Kind::kSendImmediate || kind == Kind::kWriteImmediate;
}
// Whether the operation consumes a receive request of the peer, which sees a completion.
constexpr bool ConsumesReceive(Kind kind) { return IsSend(kind) || kind == Kind::kWriteImmediate; }

// A range of an arena, as an entry of a scatter/gather list. `region` says through which of the
// arena's two memory regions it is used.
struct Piece {
  uint32_t offset;
  uint32_t length;
  uint8_t region;
};

inline constexpr int kNoWindow = -1;

// One work request of the initiator, in terms of its own arena and the target's.
struct Operation {
  Kind kind = Kind::kSend;
  uint64_t wr_id = 0;
  bool is_signaled = false;
  bool is_fenced = false;
  bool is_solicited = false;
  bool is_inline = false;
  // The source of the data; the destination for READ and atomics. `length` bytes in all.
  std::vector<Piece> local;
  uint32_t length = 0;
  // RDMA and atomics: the place in the target's arena, accessed through a window of the target or
  // region `remote_region` of its arena.
  uint32_t remote_offset = 0;
  uint8_t remote_region = 0;
  int window = kNoWindow;  // also the window that kSendInvalidate invalidates
  uint32_t immediate = 0;  // host byte order
  uint64_t compare_or_add = 0;
  uint64_t swap = 0;
  // Inline only: the initiator overwrites its buffers with this pattern after posting.
  uint64_t scribble_seed = 0;
  // The receive request that the target has posted for it; it may hold more than `length` bytes.
  std::vector<Piece> receive;
};

}  // namespace mover
