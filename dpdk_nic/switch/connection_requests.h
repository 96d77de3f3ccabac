#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/switch/frame_classifier.h"
#include "transport/cm/connection_manager.h"
#include "transport/limits.h"
#include "transport/time.h"

namespace uroce::nic {

// Handles requests of the connection manager (REQ, SIDR_REQ) beyond passing them on:
//
//  * Holds, for a moment, a request for a service that no process listens to. A server may be
//    between two listeners when a faster client asks, and programs do not expect a refusal then.
//  * After that moment, refuses the request as the connection manager of a host without that
//    listener does: REJ "invalid service id", or SIDR_REP "not supported".
//  * Remembers which process got each request: a REJ of a peer that gave up names no receiver.
//
// Not thread-safe; time is an argument.
class ConnectionRequests {
 public:
  static constexpr transport::Duration kHoldFor = transport::Milliseconds(200);
  static constexpr size_t kMaxHeld = 256;
  // Requests of one process, or of one host of the wire: those of two sources fit into half of a
  // ring.
  static constexpr size_t kMaxHeldOfOne = 48;
  // Requests of all hosts of the wire: the rest is for processes, whatever the wire brings.
  static constexpr size_t kMaxHeldOfWire = 128;

  struct Held {
    control::Block sender;  // kSwitchBlock: the wire
    RoceHeaders headers;
    std::vector<uint8_t> frame;
    transport::Time until;
  };

  // Holds a request. Returns false if there is no room: the caller refuses the request at once. A
  // repeated request is held once.
  bool Hold(transport::Time now, control::Block sender, const RoceHeaders& headers,
            std::vector<uint8_t> frame);
  // Takes a held request whose service `has_listener(headers)`, or whose time is over.
  template <class HasListener>
  std::optional<Held> TakeReady(transport::Time now, HasListener has_listener);
  bool empty() const { return held_.empty(); }
  // When the time of the first request is over; kNever if none is held.
  transport::Time NextDeadline() const {
    return held_.empty() ? transport::kNever : held_.front().until;
  }
  // Forgets the held requests of a process.
  void Remove(control::Block sender);

  // Writes the frame that refuses a request, addressed to its sender. Returns its length; 0 if
  // there is no such answer.
  size_t Refuse(transport::Time now, const RoceHeaders& headers, std::span<const uint8_t> frame,
                std::span<uint8_t> out);

  // To be called when a request was passed on; kSwitchBlock: from the wire, or to it.
  void Remember(control::Block sender, control::Block receiver, const RoceHeaders& headers,
                transport::Qpn requester_qpn);
  // The process that got the last request from this source with this sender's id; kSwitchBlock if
  // the request was forgotten.
  control::Block ReceiverOfRequest(const RoceHeaders& headers) const;
  // For an answer of `sender`: the requester's queue pair; 0 if no such request went to it.
  transport::Qpn RequesterQpnOf(control::Block sender, const RoceHeaders& headers) const;

 private:
  // Requests of processes, and as many of the wire: as many as a process has queue pairs, which may
  // all connect at once. 2 MB each.
  static constexpr size_t kMaxRemembered = transport::kMaxQps;
  struct Request {
    transport::Gid peer;
    transport::cm::CommunicationId id;

    auto operator<=>(const Request&) const = default;
  };
  struct Origin {
    transport::Qpn requester_qpn;
    control::Block receiver = control::kSwitchBlock;
    transport::Gid destination;
  };

  const Origin* Find(const transport::Gid& peer, transport::cm::CommunicationId id) const;

  std::deque<Held> held_;  // the oldest first
  std::map<Request, Origin> origins_;
  std::array<std::deque<Request>, 2> remembered_;  // by IsFromWire, the oldest first
  transport::cm::ConnectionManager manager_{transport::cm::Config{}};  // listens to nothing
};

template <class HasListener>
std::optional<ConnectionRequests::Held> ConnectionRequests::TakeReady(transport::Time now,
                                                                      HasListener has_listener) {
  for (auto it = held_.begin(); it != held_.end(); ++it) {
    if (now < it->until && !has_listener(it->headers)) continue;
    Held ready = std::move(*it);
    held_.erase(it);
    return ready;
  }
  return std::nullopt;
}

}  // namespace uroce::nic
