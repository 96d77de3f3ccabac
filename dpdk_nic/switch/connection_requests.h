#pragma once

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

// What the switch does about requests of the connection manager (REQ, SIDR_REQ) beyond passing them
// on:
//
//  * A request for a service that no process listens to is held for a moment. A server that gives
//    up one listener and makes the next one is asked in between by clients that are faster than it,
//    and programs do not expect that.
//  * When the moment is over, the switch answers as the connection manager of a host without that
//    listener does: REJ "invalid service id", or SIDR_REP "not supported".
//  * It remembers to which process requests went. A REJ of a peer that gave up names no receiver.
//
// Not thread-safe; time is an argument.
class ConnectionRequests {
 public:
  static constexpr transport::Duration kHoldFor = transport::Milliseconds(200);
  static constexpr size_t kMaxHeld = 256;
  // Of one process, or of the wire: what two of them sent fits into half of a ring.
  static constexpr size_t kMaxHeldOfOne = 48;

  struct Held {
    control::Block sender;  // kSwitchBlock: the wire
    RoceHeaders headers;
    std::vector<uint8_t> frame;
    transport::Time until;
  };

  // Returns false if there is no room: it is to be refused at once. One that is held already is
  // held once.
  bool Hold(transport::Time now, control::Block sender, const RoceHeaders& headers,
            std::vector<uint8_t> frame);
  // One that is to be passed on because its service `has_listener(headers)`, or whose time is over.
  template <class HasListener>
  std::optional<Held> TakeReady(transport::Time now, HasListener has_listener);
  bool empty() const { return held_.empty(); }
  // When the time of the first one is over; kNever if none is held.
  transport::Time NextDeadline() const {
    return held_.empty() ? transport::kNever : held_.front().until;
  }
  // What a process sent is forgotten with it.
  void Remove(control::Block sender);

  // Writes the answer to a request that was not passed on, to where it came from. Returns its
  // length; 0 if there is none to give.
  size_t Refuse(transport::Time now, const RoceHeaders& headers, std::span<const uint8_t> frame,
                std::span<uint8_t> out);

  // A request was passed on to a process, or to the wire (kSwitchBlock).
  void Remember(const RoceHeaders& headers, control::Block receiver, transport::Qpn requester_qpn);
  // The process that had the last request of that peer with that sender's id; kSwitchBlock if it
  // was forgotten.
  control::Block ReceiverOfRequest(const RoceHeaders& headers) const;
  // Of an answer: the queue pair that the request was for; 0 if it was forgotten.
  transport::Qpn RequesterQpnOf(const RoceHeaders& headers) const;

 private:
  // As many as a process has queue pairs, which may all connect at once. 2 MB.
  static constexpr size_t kMaxRemembered = transport::kMaxQps;
  struct Request {
    transport::Gid peer;
    transport::cm::CommunicationId id;

    auto operator<=>(const Request&) const = default;
  };
  struct Origin {
    transport::Qpn requester_qpn;
    control::Block receiver = control::kSwitchBlock;
  };

  const Origin* Find(const transport::Gid& peer, transport::cm::CommunicationId id) const;

  std::deque<Held> held_;  // the oldest first
  std::map<Request, Origin> origins_;
  std::deque<Request> remembered_;                                     // the oldest first
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
