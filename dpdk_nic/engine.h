#pragma once

// (Interface as agreed; the engine's author completes it.)

#include <atomic>
#include <functional>
#include <memory>

#include "dpdk_nic/packet_port.h"
#include "transport/endpoint.h"
#include "transport/events.h"
#include "transport/time.h"

namespace uroce::nic {

// Runs one transport::Endpoint over one PacketPort. See DESIGN D3.
class Engine {
 public:
  // Told of every completion notification and asynchronous event, with the engine's lock held; must
  // not call back into the engine and must not block.
  using EventSink = std::function<void(const transport::Event&)>;

  struct Options {
    enum class Mode { kAuto, kDedicated } mode = Mode::kAuto;
    EventSink event_sink;
    // class FrameTap* tap  (sees every frame sent, received and looped back: capture)
  };

  Engine(std::unique_ptr<PacketPort> port, const transport::EndpointConfig& config,
         Options options);
  ~Engine();

  // Runs `f(endpoint)` under the lock, then sends what became ready and delivers events.
  // This is how verbs are carried out: post_send, modify_qp, create_qp ...
  template <class F>
  auto WithEndpoint(F&& f);

  // One pass if nobody else is driving: what ibv_poll_cq does on an empty queue. Returns whether
  // anything was done. Yields the processor by itself after some fruitless passes.
  bool TryRunOnce();
};

}  // namespace uroce::nic
