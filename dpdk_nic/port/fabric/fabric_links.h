#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/control/client.h"
#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/port/fabric/link_thread.h"
#include "dpdk_nic/port/fabric/waiting_frames.h"
#include "dpdk_nic/port/packet_port.h"
#include "dpdk_nic/port/ring/ring_link.h"
#include "transport/route.h"
#include "transport/time.h"
#include "transport/wire/frame_builder.h"

namespace uroce::nic {

// The links of a process: one to each process that it talks to, and the uplink to uroced, which is
// the way to the wire. They are made when they are first needed, and go on without uroced.
//
//             needed: a ring is offered                      uroced: passed on
//   +------+ ---------------------------> +-------+ ----------------------------> +----+
//   | down |                              | asked |                               | up |
//   +------+ <--------------------------- +-------+ <- - (uroced was restarted)   +----+
//      ^       uroced: no; or no answer       |                                     |
//      |                                      | the other end was closed            |
//      |          all it sent is received     v                                     |
//      +---------------------------------- +-------+ <------------------------------+
//                                          | ended |
//   From any state to `up`: the other      +-------+
//   process offers a ring.
//
// A datagram to a process without a link goes by the uplink: uroced's switch hands it on. That
// takes no set-up, and only a process that is sent more than a few gets a link. All other frames
// wait while a link is asked for (WaitingFrames), and are dropped and counted while it is down or
// ended. So the first frames to a process are built as they are posted, whatever becomes of the
// link.
//
// The memory of links is made, mapped and unmapped by a thread of its own (LinkThread), without the
// engine's lock.
//
// A link is polled in every pass while it is used. One that has not been for a while is idle: of
// these, one is looked at in a polling pass, so that a process may have many.
class FabricLinks {
 public:
  using PathState = PacketPort::PathState;
  using Route = transport::Route;

  // What epoll says of a descriptor that is not a link's socket; of those it says the route.
  static constexpr uint32_t kWakeupEvent = UINT32_MAX;
  static constexpr uint32_t kThreadEvent = kWakeupEvent - 1;
  static constexpr uint32_t kFirstEventOfOthers = kThreadEvent - 1;  // and downwards

  // Both outlive it. The sockets of links are put into the epoll set.
  FabricLinks(control::ControlClient& client, const UniqueFd& epoll, LinkThread::Mode mode,
              transport::IcrcUse icrc);

  void BeginReceiveBurst();
  PacketPort::ReceivedFrame Receive() {
    for (size_t left = active_.size(); left != 0; --left) {
      if (turn_ >= active_.size()) turn_ = 0;
      const Polled& polled = active_[turn_];
      const std::span<const uint8_t> frame = polled.ring->Receive();
      if (!frame.empty()) {
        receiving_ = polled.ring;
        return {frame, polled.route, polled.ring->icrc_check()};
      }
      ++turn_;
    }
    return {};
  }
  void Release() { receiving_->Release(); }

  // Empty if the ring of a link is full, or if as many frames wait for it as may.
  transport::FrameRoom Acquire(Route route) {
    Link& link = LinkOf(route);
    is_acquired_from_ring_ = link.state == State::kUp;
    if (!is_acquired_from_ring_) [[unlikely]] {
      if (link.state == State::kAsked && waiting_.IsFull(link.waiting)) return {};
      acquired_route_ = route;
      return frame_without_link_;  // with an ICRC, wherever it will go
    }
    if (link.ring.get() != transmitting_) [[unlikely]]
      TransmitOn(route);
    return transmitting_->Acquire();
  }
  void Commit(size_t frame_bytes) {
    if (is_acquired_from_ring_) [[likely]] {
      transmitting_->Commit(frame_bytes);
    } else {
      SendWithoutLink(acquired_route_, std::span(frame_without_link_).first(frame_bytes));
    }
  }
  // At most two links have something to make visible: TransmitOn flushes the link before, and a
  // ring that was found empty has told of what was released.
  void Flush() {
    if (receiving_ != nullptr) receiving_->Flush();
    if (transmitting_ != nullptr && transmitting_ != receiving_) transmitting_->Flush();
  }

  bool BeginSleep();
  void EndSleep();

  // Makes the link if there is none; see PacketPort.
  PathState Prepare(Route route);
  // What uroced said, and that it is another uroced than before.
  void OnAnswer(const control::LinkAnswer& answer);
  void OnOffer(const control::LinkOffer& offer, UniqueFd memory, UniqueFd socket);
  void OnReattached();

  // Epoll says that the descriptor of this event is readable.
  void OnReadable(uint32_t event);
  // Call before draining a socket that a sleeping thread waits for: a peer's wake-up is one-shot,
  // and would be lost if the sleeper has not run yet.
  void WakeSleeper() {
    if (is_asleep_) Wakeup();
  }
  // Follows what happened to the links since. To be called about once a millisecond.
  void Serve(transport::Time now);

  // What the user of the program should know, and no return value can tell. Not said at once.
  void Say(const std::string& sentence) { thread_.Log(sentence); }

  void BeforeFork() { thread_.BeforeFork(); }
  void AfterForkInParent() { thread_.AfterForkInParent(); }
  void AbandonAfterFork();
  const PacketPort::Counters& counters() const { return counters_; }

 private:
  enum class State : uint8_t { kDown, kAsked, kUp, kEnded };

  struct Link {
    std::unique_ptr<RingLink> ring;  // none if down, or asked for without an uroced
    State state = State::kDown;
    bool is_active = false;  // in active_, else in idle_ if there is a ring
    PathState failure = PathState::kUnreachable;
    bool is_accepting = false;  // the thread maps the memory of an offer
    bool is_protected = false;  // RingLink::ProtectMemory
    uint8_t idle_wakes = 0;     // in a row: wake-ups without a frame
    uint16_t by_uplink = 0;     // datagrams that went there since there was a link
    uint32_t place = 0;         // in that list
    uint32_t unanswered = 0;    // requests
    uint32_t offer = 0;         // number of the last one
    uint64_t frames = 0;        // as last seen
    uint64_t woken_at_frame = 0;
    WaitingFrames::Queue waiting;
    // When it was asked for, was last seen used, or went down.
    transport::Time since{-kLongAgo.ns};
    transport::Time up_since{};
    transport::Time by_uplink_since{};
    transport::Time cut_off_until{};
  };
  // A ring, as the passes go through them.
  struct Polled {
    RingLink* ring;
    Route route;
  };
  static constexpr transport::Duration kLongAgo = transport::Milliseconds(3'600'000);

  Link& LinkOf(Route route) { return links_[static_cast<size_t>(route)]; }
  void SendWithoutLink(Route route, std::span<const uint8_t> frame);
  bool SendByUplink(Route route, std::span<const uint8_t> frame);
  void SendWaiting(Route route);
  void TransmitOn(Route route);

  bool HasDestination(Route route) const;
  void Ask(Route route, transport::Time now);
  void SendRequests(transport::Time now);
  void SendRequest(Route route, transport::Time now);
  void TakeResults(transport::Time now);
  void OnAccepted(LinkThread::Accepted accepted, transport::Time now);
  void Fail(Route route, PathState failure, transport::Time now);
  void Use(Route route, std::unique_ptr<RingLink> ring, State state, transport::Time now);
  void End(Route route);
  void CutOff(Route route, const char* why, transport::Time now);
  void Close(Route route, transport::Time now);
  void Service(Route route, transport::Time now);

  void Activate(Route route);
  void Deactivate(Route route);
  void AddTo(std::vector<Polled>& list, Route route);
  void RemoveFrom(std::vector<Polled>& list, Route route);
  void Wakeup();
  bool WakesUsForNothing(Link& link);
  void LogLink(Route route, const char* what, const char* why);

  control::ControlClient& client_;
  const UniqueFd& epoll_;
  const transport::IcrcUse icrc_;
  UniqueFd wakeup_;  // an eventfd that wakes our own sleeper
  std::vector<Polled> active_;
  std::vector<Polled> idle_;
  std::vector<Route> asked_;  // in state kAsked
  size_t turn_ = 0;           // in active_: whose frame is next
  size_t idle_turn_ = 0;
  std::vector<RingLink::Offer> spares_;  // made, and not sent yet
  uint32_t making_ = 0;                  // the thread makes so many more
  RingLink* receiving_ = nullptr;        // the last frame was from it
  RingLink* transmitting_ = nullptr;     // the last buffer of a ring was of this one
  Route acquired_route_ = Route::kWire;  // of the last buffer that was not of a ring
  bool is_acquired_from_ring_ = false;
  bool is_asleep_ = false;  // between BeginSleep and EndSleep
  bool wants_uplink_ = false;
  bool restores_uplink_ = false;
  uint32_t offers_received_ = 0;  // from this uroced
  uint32_t last_offer_ = 0;
  int link_logs_left_ = 10;
  PacketPort::Counters counters_;
  std::array<Link, transport::kRoutes> links_;
  WaitingFrames waiting_;
  // Where frames are built that no ring takes now.
  alignas(64) std::array<uint8_t, transport::kMaxFrameBytes> frame_without_link_;
  LinkThread thread_;  // ends first
};

}  // namespace uroce::nic
