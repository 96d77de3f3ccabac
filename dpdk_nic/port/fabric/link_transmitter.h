#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dpdk_nic/port/fabric/link.h"
#include "dpdk_nic/port/fabric/polled_links.h"
#include "dpdk_nic/port/fabric/waiting_frames.h"
#include "dpdk_nic/port/packet_port.h"
#include "dpdk_nic/port/ring/ring_link.h"
#include "transport/route.h"
#include "transport/time.h"
#include "transport/wire/frame_builder.h"

namespace uroce::nic {

// Sends frames by the links of a process.
//
// A datagram to a process without a link goes by the uplink: uroced's switch hands it on. That
// takes no set-up, and only a process that is sent more than a few datagrams gets a link. Other
// frames wait while a link is asked for (WaitingFrames); without one they are dropped and counted.
// So the first frames to a process are built as they are posted, whatever becomes of the link.
class LinkTransmitter {
 public:
  using Route = transport::Route;

  // Requests for links, for frames whose route has none.
  class Requests {
   public:
    virtual ~Requests() = default;
    virtual bool HasDestination(Route route) const = 0;
    // Asks uroced for the link, unless the link is there, or was asked for a moment ago.
    virtual void AskIfDue(Route route, transport::Time now) = 0;
  };

  // All arguments outlive it.
  LinkTransmitter(Requests& requests, LinkSet& links, PolledLinks& polled,
                  PacketPort::Counters& counters)
      : requests_(requests), links_(links), polled_(polled), counters_(counters) {}

  // Empty if the ring of a link is full, or if as many frames as allowed wait for it.
  transport::FrameRoom Acquire(Route route) {
    const Link& link = links_[route];
    is_acquired_from_ring_ = link.state == Link::State::kUp;
    if (!is_acquired_from_ring_) [[unlikely]] {
      if (link.state == Link::State::kAsked && waiting_.IsFull(link.waiting)) return {};
      acquired_route_ = route;
      return frame_without_link_;  // with an ICRC, by whatever way it goes
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
  // The ring of the last frame, if it is still in use; the caller flushes it.
  RingLink* transmitting() const { return transmitting_; }

  // The link is up: sends the frames that wait for it. Its ring has to live until OnIdle.
  void OnUp(Route route);
  // The link will not come up: drops the frames that wait for it.
  void DropWaiting(Route route);
  // The link is down, or no longer polled in every pass until the next frame is sent by it. Frames
  // that wait for it go on waiting.
  void OnIdle(Route route);

 private:
  void SendWithoutLink(Route route, std::span<const uint8_t> frame);
  bool SendByUplink(Route route, std::span<const uint8_t> frame);
  void TransmitOn(Route route);

  Requests& requests_;
  LinkSet& links_;
  PolledLinks& polled_;
  PacketPort::Counters& counters_;
  RingLink* transmitting_ = nullptr;     // the ring of the last buffer that was in one
  Route acquired_route_ = Route::kWire;  // of the last buffer that was in none
  bool is_acquired_from_ring_ = false;
  WaitingFrames waiting_;
  // Room to build frames that no ring takes now.
  alignas(64) std::array<uint8_t, transport::kMaxFrameBytes> frame_without_link_;
};

}  // namespace uroce::nic
