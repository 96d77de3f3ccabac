#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/port/fabric/link.h"
#include "dpdk_nic/port/packet_port.h"
#include "dpdk_nic/port/ring/ring_link.h"
#include "transport/route.h"
#include "transport/time.h"

namespace uroce::nic {

// The rings that frames are received from, each by the route it leads to, and the sleep of the
// thread that would otherwise poll them.
//
// A link is polled in every pass while it is used, and is idle after a while without frames. A
// polling pass looks at only one idle link, so that a process may have many.
class PolledLinks {
 public:
  using Route = transport::Route;
  struct Polled {
    RingLink* ring;
    Route route;
  };

  // `links` outlive it.
  explicit PolledLinks(LinkSet& links);

  // Adds the ring of a link, which is active. It has to live until Remove.
  void Add(Route route, transport::Time now);
  void Remove(Route route);
  // From now on it is polled in every pass. Harmless if it already is.
  void Activate(Route route);
  void Deactivate(Route route);
  std::span<const Polled> active() const { return active_; }
  // Whether an active link has had no frame for a while. To be called about once a millisecond.
  bool IsUnused(Route route, transport::Time now);

  void BeginReceiveBurst();
  // The oldest frame of a link, the links in turn.
  PacketPort::ReceivedFrame Receive() {
    for (size_t left = active_.size(); left != 0; --left) {
      if (turn_ >= active_.size()) turn_ = 0;
      const Polled& polled = active_[turn_];
      const std::span<const uint8_t> frame = polled.ring->Receive();
      if (!frame.empty()) {
        receiving_ = polled.ring;
        return {frame, polled.route, polled.ring->icrc_use()};
      }
      ++turn_;
    }
    return {};
  }
  void Release() { receiving_->Release(); }
  // The ring of the last frame, if it is still there; the caller flushes it.
  RingLink* receiving() const { return receiving_; }

  // See PacketPort. False: a frame is there.
  bool BeginSleep();
  void EndSleep();
  // Call before draining a socket that a sleeping thread waits for: a peer's wake-up is one-shot,
  // and would be lost if the sleeper has not run yet.
  void WakeSleeper() {
    if (is_asleep_) Wakeup();
  }
  // Readable while a sleeper is to be woken.
  int wakeup_fd() const { return wakeup_.get(); }
  void DrainWakeup();

  void AbandonAfterFork() { wakeup_.reset(); }

 private:
  void AddTo(std::vector<Polled>& list, const Polled& polled);
  Polled RemoveFrom(std::vector<Polled>& list, Route route);
  void Wakeup();

  LinkSet& links_;
  std::vector<Polled> active_;
  std::vector<Polled> idle_;
  size_t turn_ = 0;  // index in active_ of the next link
  size_t idle_turn_ = 0;
  RingLink* receiving_ = nullptr;  // the last frame was from it
  bool is_asleep_ = false;         // between BeginSleep and EndSleep
  UniqueFd wakeup_;                // an eventfd that wakes our own sleeper
};

}  // namespace uroce::nic
