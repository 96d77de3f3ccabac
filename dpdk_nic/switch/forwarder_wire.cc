// The part of the forwarder that handles the wire's state, paths and groups.
#include <cerrno>
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

control::ErrnoValue Forwarder::JoinGroup(control::Block block, const transport::Gid& group) {
  const bool is_first = table_.Members(group).empty();
  const control::ErrnoValue error = table_.JoinGroup(block, group);
  if (error != 0 || !is_first || !has_wire()) return error;
  const PacketPort::PathState state = wire_->JoinGroup(group);
  TellNotice();
  if (state != PacketPort::PathState::kRefused) return 0;
  table_.LeaveGroup(block, group);
  return ENOSPC;
}

void Forwarder::LeaveGroup(control::Block block, const transport::Gid& group) {
  const bool had_members = !table_.Members(group).empty();
  table_.LeaveGroup(block, group);
  const bool is_last = had_members && table_.Members(group).empty();
  if (is_last && has_wire()) wire_->LeaveGroup(group);
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
