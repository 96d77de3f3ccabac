#include "transport/qp/xrc_farewells.h"

#include "transport/qp/xrc_frames.h"

namespace uroce::transport {

XrcFarewells::~XrcFarewells() {
  for (auto& [route, outlet] : outlets_) transmits_.Remove(route, outlet);
}

void XrcFarewells::Add(Route to, Qpn target, uint64_t epoch) {
  Outlet& outlet = outlets_.try_emplace(to, *this, to).first->second;
  outlet.unsent.push_back({target, epoch});
  transmits_.Add(to, outlet);
}

size_t XrcFarewells::Outlet::BuildFrame(Time /*now*/, const FrameRoom& out) {
  if (unsent.empty()) return 0;
  const Farewell farewell = unsent.front();
  unsent.pop_front();
  if (unsent.empty()) farewells.transmits_.Remove(to, *this);
  const XrcStreamChange change = {.key = {},
                                  .epoch = farewell.epoch,
                                  .gid = {},
                                  .target = farewell.target,
                                  .begins = 0,
                                  .mtu = 0};
  return EmitXrcStreamChange(XrcRelayBuilder(farewells.config_, farewell.target), change, Psn(), to,
                             out);
}

}  // namespace uroce::transport
