#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/ids.h"
#include "transport/limits.h"

namespace uroce::transport {

// Where a frame has to go, and where it came from. Each route takes frames at its own pace, so that
// one that is full does not hold up the others. Beyond these two, there is one for each process of
// this host that has a block of QPNs and is linked with us (RouteToBlock).
enum class Route : uint16_t {
  kWire,      // out of the port
  kLoopback,  // to a queue pair of the same endpoint
};

inline constexpr uint32_t kQpnBlocks = (kMaxQpn + 1) / kMaxQps;

// The block of QPNs that `qpn` is in: 0 .. kQpnBlocks - 1.
constexpr uint32_t BlockOf(Qpn qpn) { return qpn.value / kMaxQps; }

constexpr Route RouteToBlock(uint32_t block) { return static_cast<Route>(2 + block); }
// Only of routes that RouteToBlock made.
constexpr uint32_t BlockOf(Route route) { return static_cast<uint32_t>(route) - 2; }
constexpr bool IsLink(Route route) { return route > Route::kLoopback; }

inline constexpr size_t kRoutes = 2 + kQpnBlocks;

}  // namespace uroce::transport
