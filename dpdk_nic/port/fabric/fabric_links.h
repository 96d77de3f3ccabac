#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/control/client.h"
#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/port/fabric/link.h"
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
// the way to the wire. Links are made when first needed, and go on without uroced.
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
// This class changes the states of the links. PolledLinks receives by them and sleeps,
// LinkTransmitter sends by them. LinkThread makes, maps and unmaps the memory of links on a thread
// of its own, without the engine's lock.
class FabricLinks final : private LinkTransmitter::Requests {
 public:
  using PathState = PacketPort::PathState;
  using Route = transport::Route;

  // epoll's data for descriptors that are no link's socket; a link's socket has the route.
  static constexpr uint32_t kWakeupEvent = UINT32_MAX;
  static constexpr uint32_t kThreadEvent = kWakeupEvent - 1;
  static constexpr uint32_t kFirstEventOfOthers = kThreadEvent - 1;  // and downwards

  // `client` and `epoll` outlive it. The sockets of links are put into the epoll set.
  FabricLinks(control::ControlClient& client, const UniqueFd& epoll, LinkThread::Mode mode,
              transport::IcrcUse icrc);

  void BeginReceiveBurst() { polled_.BeginReceiveBurst(); }
  PacketPort::ReceivedFrame Receive() { return polled_.Receive(); }
  void Release() { polled_.Release(); }
  transport::FrameRoom Acquire(Route route) { return transmitter_.Acquire(route); }
  void Commit(size_t frame_bytes) { transmitter_.Commit(frame_bytes); }
  // At most two links have something to make visible: the transmitter flushes a link before it
  // changes to another, and a ring that was found empty has published what was released.
  void Flush() {
    RingLink* const receiving = polled_.receiving();
    RingLink* const transmitting = transmitter_.transmitting();
    if (receiving != nullptr) receiving->Flush();
    if (transmitting != nullptr && transmitting != receiving) transmitting->Flush();
  }

  // See PacketPort. A link loses nothing unless one of its ends spoils frames on purpose.
  bool HasAnswered(Route route, transport::Time sent, transport::Time now);
  void TellAnswered(Route route);
  std::optional<Route> TakeGonePeer();

  bool BeginSleep();
  void EndSleep() { polled_.EndSleep(); }
  void WakeSleeper() { polled_.WakeSleeper(); }

  // Makes the link if there is none; see PacketPort.
  PathState Prepare(Route route);
  // Messages from uroced; OnReattached: the process has attached to another uroced than before.
  void OnAnswer(const control::LinkAnswer& answer);
  void OnOffer(const control::LinkOffer& offer, UniqueFd memory, UniqueFd socket);
  void OnReattached();

  // The descriptor of this event is readable.
  void OnReadable(uint32_t event);
  // Follows what happened to the links. To be called about once a millisecond.
  void Serve(transport::Time now);

  // Logs news for the user that no return value can carry. Written later, by the link thread.
  void Say(const std::string& sentence) { thread_.Log(sentence); }

  void BeforeFork() { thread_.BeforeFork(); }
  void AfterForkInParent() { thread_.AfterForkInParent(); }
  void AbandonAfterFork();
  const PacketPort::Counters& counters() const { return counters_; }

 private:
  using State = Link::State;

  // A process that has ended, and when TakeGonePeer reports it.
  struct Gone {
    Route route;
    transport::Time due;
  };

  // LinkTransmitter::Requests.
  bool HasDestination(Route route) const override;
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

  bool IsOpen(Link& link);
  bool LosesNothing(Link& link);
  bool WakesUsForNothing(Link& link);
  void LogLink(Route route, const char* what, const char* why);

  control::ControlClient& client_;
  const UniqueFd& epoll_;
  const transport::IcrcUse icrc_;
  std::vector<Route> asked_;             // in state kAsked
  std::vector<Gone> gone_;               // the oldest first
  std::vector<RingLink::Offer> spares_;  // made, and not sent yet
  uint32_t making_ = 0;                  // offers that the thread is still to make
  bool wants_uplink_ = false;
  bool restores_uplink_ = false;
  uint32_t offers_received_ = 0;  // from this uroced
  uint32_t last_offer_ = 0;
  int link_logs_left_ = 10;
  bool said_refusal_ = false;
  PacketPort::Counters counters_;
  LinkSet links_;
  PolledLinks polled_;
  LinkTransmitter transmitter_;
  LinkThread thread_;  // ends first
};

}  // namespace uroce::nic
