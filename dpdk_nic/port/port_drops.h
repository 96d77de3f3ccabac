#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <string_view>

namespace uroce::nic {

// Why a port that leads to a network lost a frame, as far as the port can tell: ROW(reason, name,
// meaning).
#define UROCE_PORT_DROPS(ROW)                                                            \
  ROW(kNotSent, "not_sent", "no route, too long for the path, or refused by a firewall") \
  ROW(kOverflow, "overflow",                                                             \
      "came faster than it was received: no room in the kernel's socket buffer")         \
  ROW(kTruncated, "truncated", "longer than any buffer for it")                          \
  ROW(kUnmarked, "unmarked", "the kernel did not tell its traffic class")                \
  ROW(kBadSegment, "bad_segment", "the kernel told a segment size that makes no sense")  \
  ROW(kOwnAddress, "own_address", "came from the network in the name of this host")      \
  ROW(kTooShort, "too_short", "no room for a BTH and an ICRC")                           \
  ROW(kTooLong, "too_long", "longer than any frame of RoCEv2")                           \
  ROW(kBadIcrc, "bad_icrc",                                                              \
      "no identification of an IPv4 packet explains it; the transport counts it, too")   \
  ROW(kNotPassedOn, "not_passed_on", "came to the wrong process, and the way to uroced had no room")

enum class PortDrop : uint8_t {
#define UROCE_REASON(reason, name, meaning) reason,
  UROCE_PORT_DROPS(UROCE_REASON)
#undef UROCE_REASON
};

struct PortDropName {
  std::string_view name;
  std::string_view meaning;
};

// By the number of the reason.
inline constexpr PortDropName kPortDropNames[] = {
#define UROCE_ROW(reason, name, meaning) {name, meaning},
    UROCE_PORT_DROPS(UROCE_ROW)
#undef UROCE_ROW
};
inline constexpr size_t kPortDropReasons = std::size(kPortDropNames);

// Lost frames by reason. The counts only grow.
struct PortDrops {
  std::array<uint64_t, kPortDropReasons> by_reason{};

  uint64_t& operator[](PortDrop reason) { return by_reason[static_cast<size_t>(reason)]; }
  uint64_t operator[](PortDrop reason) const { return by_reason[static_cast<size_t>(reason)]; }
  uint64_t total() const {
    return std::accumulate(by_reason.begin(), by_reason.end(), uint64_t{0});
  }
};

// In lower case, with underscores: "not_sent".
constexpr std::string_view NameOf(PortDrop reason) {
  return kPortDropNames[static_cast<size_t>(reason)].name;
}

// Losses of a port on the links of this host: ROW(field, meaning).
#define UROCE_PORT_COUNTERS(ROW)                                                         \
  ROW(transmit_dropped_no_link, "frames to a process that is gone or cannot be reached") \
  ROW(transmit_dropped_link_pending, "frames beyond those that may wait for their link") \
  ROW(receive_malformed, "slots of a ring, or descriptors, that made no sense")

struct PortCounters {
#define UROCE_FIELD(field, meaning) uint64_t field = 0;
  UROCE_PORT_COUNTERS(UROCE_FIELD)
#undef UROCE_FIELD
  PortDrops drops;  // of a port that leads to a network
};

struct PortCounterRow {
  std::string_view name;
  std::string_view meaning;
  uint64_t PortCounters::*field;
};

inline constexpr PortCounterRow kPortCounters[] = {
#define UROCE_ROW(field, meaning) {#field, meaning, &PortCounters::field},
    UROCE_PORT_COUNTERS(UROCE_ROW)
#undef UROCE_ROW
};

}  // namespace uroce::nic
