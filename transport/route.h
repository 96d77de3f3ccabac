#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/ids.h"
#include "transport/limits.h"

namespace uroce::transport {

// Where a frame goes, or where it came from. Each route takes frames at its own pace, so that a
// full route does not hold up the others. Besides these two there is one route for each linked
// process of this host, numbered by its block of QPNs (RouteToBlock).
enum class Route : uint16_t {
  kWire,      // out of the port
  kLoopback,  // to a queue pair of the same endpoint
};

inline constexpr uint32_t kQpnBlocks = (kMaxQpn + 1) / kMaxQps;

// The block of QPNs that `qpn` is in: 0 .. kQpnBlocks - 1.
constexpr uint32_t BlockOf(Qpn qpn) { return qpn.value / kMaxQps; }

constexpr Route RouteToBlock(uint32_t block) { return static_cast<Route>(2 + block); }
// `route` was made by RouteToBlock.
constexpr uint32_t BlockOf(Route route) { return static_cast<uint32_t>(route) - 2; }
constexpr bool IsLink(Route route) { return route > Route::kLoopback; }

inline constexpr size_t kRoutes = 2 + kQpnBlocks;

}  // namespace uroce::transport
