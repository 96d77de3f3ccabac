#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "transport/congestion/congestion_control.h"
#include "transport/congestion/delivery_meter.h"
#include "transport/psn.h"
#include "transport/time.h"

namespace uroce::transport {

// The part of a requester that sends on a network: it measures for the congestion control, and
// turns the limits of that into a window and into permits to send.
class FlowControl {
 public:
  explicit FlowControl(std::unique_ptr<CongestionControl> control) : control_(std::move(control)) {}

  // The connection begins, or it has a new path.
  void Restart();
  // Packets that may be in flight.
  uint32_t window() const { return limits_.window; }
  // Packets that a peer may send at once: the path carries them in kPeersBurst.
  uint32_t longest_burst() const;

  // A packet with this PSN that asks for `psns` responses was sent (DeliveryMeter).
  void OnSent(Time now, Psn psn, uint32_t psns, bool is_limited, bool is_repeated);
  // `packets` more have arrived, the newest right before `end`. Returns the round trip if that was
  // measured.
  std::optional<Duration> OnAcknowledged(Time now, Psn end, uint32_t packets, uint32_t in_flight);
  // The oldest packet is sent again, alone.
  void OnProbe() { meter_.OnProbe(); }
  // So many packets from this PSN on are sent again.
  void OnSentAgain(Psn psn, uint32_t packets) { meter_.OnSentAgain(psn, packets); }
  // Packets are sent again from the oldest on.
  void GoBack() { meter_.GoBack(); }
  // So many more packets are known to be lost, of `in_flight` that were not known to have arrived.
  void OnLoss(Time now, uint32_t packets, uint32_t in_flight);

  // How many packets may leave now: a burst that takes the path a fraction of a millisecond. 0:
  // none before next_send(). `sent` have left since the last call.
  uint32_t TakePermit(Time now, uint32_t sent);
  Time next_send() const { return next_send_; }

 private:
  void FollowLimits(Time now);

  std::unique_ptr<CongestionControl> control_;
  CongestionLimits limits_;
  Time next_send_{};  // when all that was sent has left at the rate
  bool was_refused_ = false;
  // The program was late. Until `late_psn_` is acknowledged, samples tell more of its processor
  // than of the path.
  bool was_late_ = false;
  std::optional<Psn> late_psn_;  // the first one sent after that
  Duration made_up_;  // the part of a wait that was too long which the next packets make up for
  DeliveryMeter meter_;
};

}  // namespace uroce::transport
