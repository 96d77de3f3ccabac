#include "dpdk_nic/engine/linked_peers.h"

namespace uroce::nic {

using transport::Route;

void LinkedPeers::Note(Route from) {
  if (!transport::IsLink(from)) return;
  is_unanswered_[static_cast<size_t>(from)] = true;
  unanswered_.push_back(from);
}

void LinkedPeers::TellAll(const transport::Endpoint& endpoint, PacketPort& port) {
  std::erase_if(unanswered_, [&](Route route) {
    if (endpoint.OwesReply(route)) return false;
    port.TellAnswered(route);
    is_unanswered_[static_cast<size_t>(route)] = false;
    return true;
  });
}

std::string LinkedPeers::FollowEnds(transport::Endpoint& endpoint, PacketPort& port) {
  while (const auto route = port.TakeGonePeer()) endpoint.OnPeerGone(*route);
  const int lost = endpoint.TakeLostPeers();
  if (lost == 0) return {};
  return "the process at the other end of " + std::to_string(lost) +
         (lost == 1 ? " queue pair" : " queue pairs") +
         " has ended: requests that it did not answer complete with IBV_WC_RETRY_EXC_ERR";
}

}  // namespace uroce::nic
