#pragma once

#include <compare>
#include <cstdint>

namespace uroce::transport {

// A span of time. The transport has no clock of its own: every call says what time it is.
struct Duration {
  int64_t ns = 0;

  constexpr auto operator<=>(const Duration&) const = default;
  constexpr Duration operator+(Duration other) const { return {ns + other.ns}; }
  constexpr Duration operator-(Duration other) const { return {ns - other.ns}; }
  constexpr Duration operator*(int64_t factor) const { return {ns * factor}; }
};

constexpr Duration Microseconds(int64_t us) { return {us * 1'000}; }
constexpr Duration Milliseconds(int64_t ms) { return {ms * 1'000'000}; }

// A point on a monotonic time line. The caller chooses its origin.
struct Time {
  int64_t ns = 0;

  constexpr auto operator<=>(const Time&) const = default;
  constexpr Time operator+(Duration d) const { return {ns + d.ns}; }
  constexpr Duration operator-(Time other) const { return {ns - other.ns}; }
};

// Later than every deadline: "no deadline".
inline constexpr Time kNever{INT64_MAX};

}  // namespace uroce::transport
