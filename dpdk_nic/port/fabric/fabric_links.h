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
#include "dpdk_nic/port/fabric/link_transmitter.h"
#include "dpdk_nic/port/fabric/polled_links.h"
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
// Here are their states. PolledLinks receives by them and sleeps, LinkTransmitter sends by them.
// The memory of links is made, mapped and unmapped by a thread of its own (LinkThread), without the
// engine's lock.
class FabricLinks final : private LinkTransmitter::Links {
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

  void BeginReceiveBurst() { polled_.BeginReceiveBurst(); }
  PacketPort::ReceivedFrame Receive() { return polled_.Receive(); }
  void Release() { polled_.Release(); }
  transport::FrameRoom Acquire(Route route) { return transmitter_.Acquire(route); }
  void Commit(size_t frame_bytes) { transmitter_.Commit(frame_bytes); }
  // At most two links have something to make visible: the transmitter flushes the link before, and
  // a ring that was found empty has told of what was released.
  void Flush() {
    RingLink* const receiving = polled_.receiving();
    RingLink* const transmitting = transmitter_.transmitting();
    if (receiving != nullptr) receiving->Flush();
    if (transmitting != nullptr && transmitting != receiving) transmitting->Flush();
  }

  bool BeginSleep();
  void EndSleep() { polled_.EndSleep(); }
  void WakeSleeper() { polled_.WakeSleeper(); }

  // Makes the link if there is none; see PacketPort.
  PathState Prepare(Route route);
  // What uroced said, and that it is another uroced than before.
  void OnAnswer(const control::LinkAnswer& answer);
  void OnOffer(const control::LinkOffer& offer, UniqueFd memory, UniqueFd socket);
  void OnReattached();

  // Epoll says that the descriptor of this event is readable.
  void OnReadable(uint32_t event);
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
    PathState failure = PathState::kUnreachable;
    bool is_accepting = false;  // the thread maps the memory of an offer
    bool is_protected = false;  // RingLink::ProtectMemory
    uint8_t idle_wakes = 0;     // in a row: wake-ups without a frame
    uint32_t unanswered = 0;    // requests
    uint32_t offer = 0;         // number of the last one
    uint64_t woken_at_frame = 0;
    // When it was asked for, came up, or went down.
    transport::Time since{-kLongAgo.ns};
    transport::Time up_since{};
    transport::Time cut_off_until{};
  };
  static constexpr transport::Duration kLongAgo = transport::Milliseconds(3'600'000);

  Link& LinkOf(Route route) { return links_[static_cast<size_t>(route)]; }
  const Link& LinkOf(Route route) const { return links_[static_cast<size_t>(route)]; }

  // LinkTransmitter::Links.
  bool HasDestination(Route route) const override;
  bool IsAskedFor(Route route) const override { return LinkOf(route).state == State::kAsked; }
  bool HasEnded(Route route) const override { return LinkOf(route).state == State::kEnded; }
  void AskIfDue(Route route, transport::Time now) override;

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
  void DiscardRing(Route route, transport::Time now);
  void Service(Route route, transport::Time now);

  bool WakesUsForNothing(Link& link);
  void LogLink(Route route, const char* what, const char* why);

  control::ControlClient& client_;
  const UniqueFd& epoll_;
  const transport::IcrcUse icrc_;
  std::vector<Route> asked_;             // in state kAsked
  std::vector<RingLink::Offer> spares_;  // made, and not sent yet
  uint32_t making_ = 0;                  // the thread makes so many more
  bool wants_uplink_ = false;
  bool restores_uplink_ = false;
  uint32_t offers_received_ = 0;  // from this uroced
  uint32_t last_offer_ = 0;
  int link_logs_left_ = 10;
  PacketPort::Counters counters_;
  std::array<Link, transport::kRoutes> links_;
  PolledLinks polled_;
  LinkTransmitter transmitter_;
  LinkThread thread_;  // ends first
};

}  // namespace uroce::nic
