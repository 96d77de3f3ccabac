#pragma once

#include <algorithm>
#include <optional>

#include "transport/psn.h"
#include "transport/time.h"

namespace uroce::transport {

// The round-trip time of a path, measured on one packet at a time (as RFC 6298 does it), and the
// silence after which a loss is likely.
class RoundTripTime {
 public:
  // LongestSilence until the first response has arrived.
  static constexpr Duration kInitialSilence = Milliseconds(50);
  // The least: a peer on a busy host is silent for so long while its processor does other work.
  static constexpr Duration kMinSilence = Milliseconds(1);

  // A packet that asks for a response with this PSN went out for the first time.
  void OnSent(Psn psn, Time now) {
    if (!measured_) measured_ = {psn, now};
  }
  // All packets before `oldest_unacked` are acknowledged.
  void OnAcknowledged(Psn oldest_unacked, Time now) {
    if (!measured_ || !oldest_unacked.IsAfter(measured_->psn)) return;
    Add(now - measured_->sent);
    measured_.reset();
  }
  // A round trip that was measured elsewhere.
  void OnMeasured(Duration round_trip) {
    latest_ = round_trip;
    Add(round_trip);
  }
  // The measured packet is sent again: its response could be to either (Karn's rule).
  void Cancel() { measured_.reset(); }
  // It is sent again because the peer misses something. That was sent with it or later, so the
  // round trip is no longer than this, which is Shortest() until something better is known.
  void OnNak(Time now) {
    if (measured_ && !smoothed_) shortest_ = now - measured_->sent;
    measured_.reset();
  }

  // 0 before the first response or NAK.
  Duration Shortest() const { return shortest_; }
  // The last one that was measured elsewhere, or the shortest.
  Duration Latest() const { return latest_.value_or(shortest_); }
  // A response that stays away for longer is likely to be lost.
  Duration LongestSilence() const { return longest_silence_; }

 private:
  struct Measurement {
    Psn psn;
    Time sent;
  };

  void Add(Duration sample) {
    shortest_ = smoothed_ ? std::min(shortest_, sample) : sample;
    if (!smoothed_) {
      smoothed_ = sample;
      variation_ = {sample.ns / 2};
    } else {
      const int64_t error_ns = sample.ns - smoothed_->ns;
      variation_.ns += ((error_ns < 0 ? -error_ns : error_ns) - variation_.ns) / 4;
      smoothed_->ns += error_ns / 8;
    }
    longest_silence_ = std::max(kMinSilence, *smoothed_ + variation_ * 4);
  }

  std::optional<Measurement> measured_;
  std::optional<Duration> smoothed_;
  Duration variation_;
  Duration shortest_;
  std::optional<Duration> latest_;
  Duration longest_silence_ = kInitialSilence;  // follows from the two
};

}  // namespace uroce::transport
