#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "transport/cm/message_codec.h"
#include "transport/cm/messages.h"

namespace uroce::transport::cm {

// Counters of messages as a whole: ROW(field, meaning).
#define UROCE_CM_COUNTERS(ROW)                                                             \
  ROW(unmatched, "messages to no connection, or to one in the wrong state")                \
  ROW(foreign_source, "first answers from a GID that the request did not go to")           \
  ROW(stale, "peers that named a queue pair that was connected already")                   \
  ROW(backlog_full, "requests dropped: the listener has enough that are unanswered")       \
  ROW(half_open_full, "requests refused or dropped: too many of this peer or of all wait") \
  ROW(transmit_full, "messages dropped: too many wait to be sent")                         \
  ROW(timewait_cut, "timewaits that ended early, for want of ids")

// The first four are the groups of /sys/class/infiniband/DEVICE/ports/1/cm_*_msgs on Linux, in the
// order of IndexOf.
struct Counters {
  std::array<uint64_t, kAttributes> transmitted{};
  std::array<uint64_t, kAttributes> retries{};
  std::array<uint64_t, kAttributes> received{};
  std::array<uint64_t, kAttributes> duplicates{};

  std::array<uint64_t, static_cast<size_t>(Malformed::kCount)> malformed{};
#define UROCE_FIELD(field, meaning) uint64_t field = 0;
  UROCE_CM_COUNTERS(UROCE_FIELD)
#undef UROCE_FIELD
};

constexpr Attribute AttributeAt(size_t index) {
  return static_cast<Attribute>(kFirstAttribute + index);
}

struct CounterRow {
  std::string_view name;
  std::string_view meaning;
  uint64_t Counters::*field;
};

inline constexpr CounterRow kCounters[] = {
#define UROCE_ROW(field, meaning) {#field, meaning, &Counters::field},
    UROCE_CM_COUNTERS(UROCE_ROW)
#undef UROCE_ROW
};

struct MessageCounterRow {
  std::string_view name;
  std::string_view linux_name;
  std::string_view meaning;
  std::array<uint64_t, kAttributes> Counters::*messages;
};

// One count for each kind of message.
inline constexpr MessageCounterRow kMessageCounters[] = {
    {"transmitted", "cm_tx_msgs", "messages sent", &Counters::transmitted},
    {"retries", "cm_tx_retries", "messages sent again", &Counters::retries},
    {"received", "cm_rx_msgs", "messages received", &Counters::received},
    {"duplicates", "cm_rx_duplicates", "messages received again", &Counters::duplicates},
};

}  // namespace uroce::transport::cm
