#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "dpdk_nic/engine/progress_mode.h"
#include "dpdk_nic/engine/published_state.h"
#include "dpdk_nic/link_layer/link_layer.h"
#include "dpdk_nic/port/frame_tap.h"
#include "transport/events.h"
#include "transport/ids.h"

namespace uroce::nic {

// What an engine is made with, beside its port and the endpoint's configuration.
struct EngineOptions {
  // Told of every completion notification and asynchronous event, with the engine's lock held; must
  // not call back into the engine and must not block.
  using EventSink = std::function<void(const transport::Event&)>;
  // Told of every neighbour whose Ethernet address became known or changed. As for events.
  using NeighborSink = std::function<void(const transport::Gid&, const transport::MacAddress&)>;
  // Told at the end of every pass as long as the connection manager has events. As for events.
  using ConnectionSink = std::function<void()>;

  ProgressMode mode = ProgressMode::kAuto;
  // Among the engines of its device: a dedicated thread is on a processor of its own.
  uint32_t number = 0;
  EventSink event_sink = {};
  ConnectionSink connection_sink = {};
  NeighborSink neighbor_sink = {};
  std::unique_ptr<LinkLayer> link_layer = {};  // none: StaticNeighbors
  std::unique_ptr<FrameTap> tap = {};          // sees every frame; may be none
  // Where the endpoint lives; none: in private memory.
  std::unique_ptr<PublishedState> published_state = {};
};

}  // namespace uroce::nic
