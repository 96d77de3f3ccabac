#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

#include "transport/endpoint_config.h"
#include "transport/ids.h"
#include "transport/qp/transmit_schedule.h"
#include "transport/route.h"

namespace uroce::transport {

// Tells other processes that targets of this one have ended the streams of their requests
// (XrcRelay): the targets may be gone before the frames leave. It allocates memory: it is not on
// the data path.
class XrcFarewells {
 public:
  // Both outlive this object.
  XrcFarewells(const EndpointConfig& config, TransmitSchedule& transmits)
      : config_(config), transmits_(transmits) {}
  ~XrcFarewells();
  XrcFarewells(const XrcFarewells&) = delete;
  XrcFarewells& operator=(const XrcFarewells&) = delete;

  // `target` has ended its stream `epoch` to the process at the other end of `to`.
  void Add(Route to, Qpn target, uint64_t epoch);

 private:
  struct Farewell {
    Qpn target;
    uint64_t epoch;
  };
  // To one process.
  struct Outlet : TransmitClient {
    Outlet(XrcFarewells& all, Route route) : farewells(all), to(route) {}
    size_t BuildFrame(Time now, const FrameRoom& out) override;

    XrcFarewells& farewells;
    const Route to;
    std::deque<Farewell> unsent;
  };

  const EndpointConfig& config_;
  TransmitSchedule& transmits_;
  std::map<Route, Outlet> outlets_;
};

}  // namespace uroce::transport
