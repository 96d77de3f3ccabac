#pragma once

#include <array>
#include <string>
#include <vector>

#include "dpdk_nic/port/packet_port.h"
#include "transport/endpoint.h"
#include "transport/route.h"

namespace uroce::nic {

// The peers of an engine on links: which of them are to be told that their frames are answered, and
// which of them are gone. Used under the engine's lock.
class LinkedPeers {
 public:
  LinkedPeers() { unanswered_.reserve(transport::kRoutes); }  // so that nothing allocates later

  // A frame has arrived by `from`.
  void NoteFrame(transport::Route from) {
    if (!is_unanswered_[static_cast<size_t>(from)]) [[unlikely]]
      Note(from);
  }
  // A pass ends that has sent its answers. A peer that waits for a reply that is still to be sent
  // is told by a later pass.
  void TellAnswered(const transport::Endpoint& endpoint, PacketPort& port) {
    if (!unanswered_.empty()) TellAll(endpoint, port);
  }
  // Fails requests to processes that have ended. Returns a sentence for the user; mostly empty.
  static std::string FollowEnds(transport::Endpoint& endpoint, PacketPort& port);

 private:
  void Note(transport::Route from);
  void TellAll(const transport::Endpoint& endpoint, PacketPort& port);

  std::vector<transport::Route> unanswered_;  // each once
  std::array<bool, transport::kRoutes> is_unanswered_{};
};

}  // namespace uroce::nic
