#pragma once

#include <cstdint>
#include <string_view>

#include "dpdk_nic/port/port_drops.h"

namespace uroce::nic::control {

// Frames that the switch of uroced moved: ROW(field, meaning).
#define UROCE_SWITCH_COUNTERS(ROW)                                                 \
  ROW(frames_to_wire, "frames of processes sent to the wire")                      \
  ROW(frames_from_wire, "frames of the wire given to processes")                   \
  ROW(multicast_copies, "copies of a multicast datagram for members of this host") \
  ROW(frames_between_processes, "frames between processes that have no link yet")  \
  ROW(frames_passed_on, "frames that had come to the socket of another process")   \
  ROW(peer_queries_answered, "questions of other hosts whether this one is uroce, answered")

// Why the switch dropped a frame: ROW(field, name, name for people, meaning).
#define UROCE_SWITCH_DROPS(ROW)                                                                 \
  ROW(dropped_unknown_destination, "unknown_destination", "without receiver",                   \
      "from the wire without a receiver, or to an address of this host")                        \
  ROW(dropped_not_declared, "not_declared", "not declared",                                     \
      "to the wire, from or to a queue pair that was not declared")                             \
  ROW(dropped_foreign_source, "foreign_source", "in another's name",                            \
      "with a source that is not the sender's")                                                 \
  ROW(dropped_malformed, "malformed", "malformed", "no RoCEv2 frame that the switch can judge") \
  ROW(dropped_no_room, "no_room", "without room", "no room in the ring of the receiving process")

// The counts only grow.
struct SwitchCounters {
#define UROCE_FIELD(field, ...) uint64_t field = 0;
  UROCE_SWITCH_COUNTERS(UROCE_FIELD)
  UROCE_SWITCH_DROPS(UROCE_FIELD)
#undef UROCE_FIELD
  PortDrops port;  // lost by the port itself
};

struct SwitchCounterRow {
  std::string_view name;
  std::string_view meaning;
  uint64_t SwitchCounters::*field;
};

inline constexpr SwitchCounterRow kSwitchCounters[] = {
#define UROCE_ROW(field, meaning) {#field, meaning, &SwitchCounters::field},
    UROCE_SWITCH_COUNTERS(UROCE_ROW)
#undef UROCE_ROW
};

struct SwitchDropRow : SwitchCounterRow {
  std::string_view words;
};

inline constexpr SwitchDropRow kSwitchDrops[] = {
#define UROCE_ROW(field, name, words, meaning) {{name, meaning, &SwitchCounters::field}, words},
    UROCE_SWITCH_DROPS(UROCE_ROW)
#undef UROCE_ROW
};

}  // namespace uroce::nic::control
