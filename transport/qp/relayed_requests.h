#pragma once

#include <cstddef>

#include "transport/counters.h"
#include "transport/qp/environment.h"
#include "transport/qp/xrc_relay.h"
#include "transport/route.h"
#include "transport/time.h"
#include "transport/wire/frame_room.h"
#include "transport/wire/packet.h"

namespace uroce::transport {

class Responder;

// The part of the responder of an XRC target that other processes execute requests for: it judges
// what arrives while requests are in the relay, and answers the peer when they are executed.
class RelayedRequests {
 public:
  // After so many silences of kPatience, each of a process that has read all, it is given up.
  static constexpr int kMostSilences = 8;
  static constexpr Duration kPatience = Milliseconds(100);

  RelayedRequests(QpContext& qp, Responder& responder)
      : qp_(qp), responder_(responder), relay_(qp) {}

  // Whether another process executes the request, or it has to wait for others that do.
  bool Concern(const Packet& packet) const {
    return !relay_.empty() || relay_.IsForeign(packet.xrceth.srqn);
  }
  // A request for which Concern holds.
  DropReason OnRequest(const Packet& packet);
  // A response of another process.
  DropReason OnResponse(const Packet& packet);
  // When OnDeadline is to be called. It sends again what an executor does not answer.
  Time deadline() const { return relay_.empty() ? kNever : deadline_; }
  void OnDeadline(Time now);
  // The process at the other end of `route` has ended. Returns whether anything changed.
  bool OnProcessGone(Route route);
  // Builds the response packet that Reply::is_relayed stands for; 0 if it is due no more.
  size_t BuildResponse(const FrameRoom& out);
  // Forgets all requests.
  void Reset() { relay_.Reset(); }

 private:
  DropReason OnDuplicate(const Packet& packet);
  bool Push(const Packet& packet);
  void ExecuteAnswered();
  bool ExecuteFront();
  bool ExecuteHere(const Packet& packet);
  void Refuse(XrcRelay::Refusal refusal, NakCode nak);

  QpContext& qp_;
  Responder& responder_;
  XrcRelay relay_;
  Time deadline_{};  // zero: the wait has just begun
  int silences_ = 0;
};

}  // namespace uroce::transport
