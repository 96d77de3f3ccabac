#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>

namespace uroce::nic {

// Why a port that leads to a network lost a frame, as far as the port can tell.
enum class PortDrop : uint8_t {
  kNotSent,      // no route, too long for the path, refused by a firewall
  kOverflow,     // came faster than it was received: no room in the kernel's socket buffer
  kTruncated,    // longer than any buffer for it
  kUnmarked,     // the kernel did not tell its traffic class
  kBadSegment,   // the kernel told a segment size that makes no sense
  kOwnAddress,   // came from the network in the name of this host
  kTooShort,     // no room for a BTH and an ICRC
  kTooLong,      // longer than any frame of RoCEv2
  kBadIcrc,      // no identification of an IPv4 packet explains it; the transport counts it, too
  kNotPassedOn,  // came to the wrong process, and the way to uroced had no room
};
inline constexpr size_t kPortDropReasons = 10;

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
  constexpr std::array<std::string_view, kPortDropReasons> kNames = {
      "not_sent",    "overflow",  "truncated", "unmarked", "bad_segment",
      "own_address", "too_short", "too_long",  "bad_icrc", "not_passed_on"};
  static_assert(kNames.size() == static_cast<size_t>(PortDrop::kNotPassedOn) + 1);
  return kNames[static_cast<size_t>(reason)];
}

}  // namespace uroce::nic
