#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "transport/cm/message_codec.h"
#include "transport/cm/messages.h"

namespace uroce::transport::cm {

// Counts since the communication manager was created. The first four are the groups of
// /sys/class/infiniband/DEVICE/ports/1/cm_*_msgs on Linux, in the order of IndexOf.
struct Counters {
  std::array<uint64_t, kAttributes> transmitted{};
  std::array<uint64_t, kAttributes> retries{};
  std::array<uint64_t, kAttributes> received{};
  std::array<uint64_t, kAttributes> duplicates{};

  std::array<uint64_t, static_cast<size_t>(Malformed::kCount)> malformed{};
  uint64_t unmatched = 0;       // messages to no connection, or to one in the wrong state
  uint64_t foreign_source = 0;  // first answers from a GID that the request did not go to
  uint64_t stale = 0;           // peers that named a queue pair that was connected already
  uint64_t backlog_full = 0;    // requests dropped: the listener has enough that are unanswered
  uint64_t half_open_full = 0;  // requests refused: kMaxHalfOpen, kMaxHalfOpenPerPeer, kMaxIds
  uint64_t transmit_full = 0;   // MADs dropped: kMaxQueuedMads, kMaxQueuedRefusals
  uint64_t timewait_cut = 0;    // timewaits that ended early, for want of ids
};

}  // namespace uroce::transport::cm
