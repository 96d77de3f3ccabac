#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "dpdk_nic/engine/port_notice.h"
#include "dpdk_nic/engine/progress_mode.h"
#include "dpdk_nic/engine/published_state.h"
#include "dpdk_nic/link_layer/link_layer.h"
#include "dpdk_nic/port/frame_tap.h"
#include "transport/events.h"
#include "transport/ids.h"

namespace uroce::nic {

// The options of an engine, beside its port and the endpoint's configuration.
struct EngineOptions {
  // Called for every completion notification and asynchronous event, with the engine's lock held;
  // must not call back into the engine and must not block.
  using EventSink = std::function<void(const transport::Event&)>;
  // Called for every neighbour whose Ethernet address became known or changed; rules as for events.
  using NeighborSink = std::function<void(const transport::Gid&, const transport::MacAddress&)>;
  // Called at the end of every pass while the connection manager has events; rules as for events.
  using ConnectionSink = std::function<void()>;

  ProgressMode mode = ProgressMode::kAuto;
  // The engine's number in its device: gives each dedicated thread a processor of its own.
  uint32_t number = 0;
  EventSink event_sink = {};
  ConnectionSink connection_sink = {};
  NeighborSink neighbor_sink = {};
  std::unique_ptr<LinkLayer> link_layer = {};  // none: StaticNeighbors
  std::unique_ptr<FrameTap> tap = {};          // sees every frame; may be none
  // Holds the endpoint's state; none: private memory holds it.
  std::unique_ptr<PublishedState> published_state = {};
  // Shows the port to programs that only look; may be none.
  std::unique_ptr<PortNotice> port_notice = {};
};

}  // namespace uroce::nic
