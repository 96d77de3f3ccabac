// What the wire tells of itself.
#include <utility>

#include "dpdk_nic/switch/forwarder.h"

namespace uroce::nic {

uint32_t Forwarder::PreparePath(const transport::Gid& remote) {
  if (!has_wire()) return 0;
  const PacketPort::Path path = {
      .route = transport::Route::kWire, .local = {}, .remote = {}, .remote_gid = remote};
  wire_->PreparePath(path);
  TellNotice();
  return wire_->PathMtu(path);
}

void Forwarder::TellNotice() {
  const PacketPort::Notice notice = wire_->TakeNotice();
  if (!notice.sentence.empty() && listener_.on_notice) listener_.on_notice(notice);
}

void Forwarder::CheckWireState() {
  wire_->ServeLink();
  TellNotice();
  const bool has_sockets = sharing_ != nullptr && sharing_->has_sockets();
  if (std::exchange(told_of_sockets_, has_sockets) != has_sockets && listener_.on_wire_sockets) {
    listener_.on_wire_sockets();
  }
  if (const auto gids = wire_->TakeGids()) {
    addresses_.gids = *gids;
    if (listener_.on_gids) listener_.on_gids(*gids);
  }
  const bool is_up = wire_->active() && !wire_->failed();
  if (wire_is_up_ == is_up) return;
  wire_is_up_ = is_up;
  if (listener_.on_wire_state) listener_.on_wire_state(is_up);
}

}  // namespace uroce::nic
