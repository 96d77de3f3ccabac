#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "transport/congestion/congestion_control.h"
#include "transport/limits.h"
#include "transport/time.h"

namespace uroce::transport {

// A model of the path, after BBR: the rate of its bottleneck and its shortest round trip. Packets
// leave at that rate, and about twice the product of the two may be in flight. Neither a random
// loss nor a peer that is silent for a while makes it slower; a queue that overflows does.
//
//   kQuiet ──► kStartup ──► kDrain ──► kCruise ◄──► kProbeRoundTrip
//
//   kQuiet:   a short path without a sign of a queue is not limited
//   kStartup: doubles the rate each round trip, until that does not deliver more
//   kDrain:   the queue that this has made empties
//   kCruise:  cycles of sending faster, slower, and for several round trips at the rate
//   kProbeRoundTrip: nearly nothing is in flight for a moment, so that the shortest round trip
//   shows
//
// If it shows instead that others keep the queue full, as TCP does, the connection competes: its
// window follows the queue, grows by a packet a round trip and shrinks when the queue overflows.
class RateModel final : public CongestionControl {
 public:
  explicit RateModel(uint32_t seed) : seed_(seed) {}

  void Restart() override { *this = RateModel(seed_); }
  void OnAcknowledged(const Acknowledgement& acknowledgement) override;
  void OnLoss(Time now, uint32_t packets, uint32_t in_flight) override;
  CongestionLimits limits() const override;

 private:
  enum class Phase : uint8_t { kQuiet, kStartup, kDrain, kCruise, kProbeRoundTrip };
  static constexpr uint32_t kFirstCruiseRounds = 6;  // round trips at the rate in a cycle
  static constexpr Duration kLongest{INT64_MAX / 4};

  void UpdateRoundTrip(Time now, Duration round_trip);
  void UpdateRate(const DeliverySample& sample);
  void UpdateBunch(Time now, uint32_t packets);
  void OnRound(bool is_limited);
  void OnStartupRound();
  void OnLossInStartup();
  void Bound(Time now, uint32_t in_flight);
  void FollowPhase(Time now, uint32_t in_flight);
  void EnterCruise(Time now);
  void FollowCycle(Time now, uint32_t in_flight);
  bool IsShortestOld(Time now) const;
  void EnterProbe(Time now);
  void OnProbed(Time now);
  uint32_t PercentOfRate() const;
  uint64_t Window() const;
  uint64_t Product() const;  // packets in flight that just fill the path
  bool HasQueue() const;     // the last round trip shows one
  bool HasLongQueue() const;
  bool IsLong(Duration round_trip) const;
  uint64_t rate() const { return std::max(rates_[0], rates_[1]); }

  uint32_t seed_;
  Phase phase_ = Phase::kQuiet;

  // Of this period of some round trips and of the last one:
  std::array<uint64_t, 2> rates_{};                     // the best, in packets per second
  std::array<Duration, 2> recent_{kLongest, kLongest};  // the shortest round trip
  std::array<uint64_t, 2> bunches_{};                   // the largest (UpdateBunch), in packets
  uint32_t rounds_in_period_ = 0;
  Time bunch_end_{};            // when all that was acknowledged would have been, at the rate
  uint32_t lost_in_round_ = 0;  // packets
  Time lost_at_{};              // the first of a round trip

  std::optional<Duration> shortest_;  // round trip
  Time shortest_at_{};
  Duration latest_{};

  // kStartup and kDrain
  uint64_t full_rate_ = 0;  // when the rate last grew
  uint32_t rounds_without_growth_ = 0;
  bool lost_in_startup_ = false;
  uint32_t drain_rounds_ = 0;

  // kCruise
  uint32_t cycle_phase_ = 0;  // 0: faster; 1: slower; then at the rate
  Time cycle_phase_at_{};
  uint32_t cruise_rounds_ = kFirstCruiseRounds;
  bool lost_in_cruise_ = false;            // since the last round trip that was faster
  uint64_t bound_ = kMaxCongestionWindow;  // packets that the path is known to hold
  Time bound_at_{};                        // when it was last lowered
  bool competes_ = false;                  // others keep the queue full

  // kProbeRoundTrip
  Time phase_end_{};
  Duration probed_{};         // the shortest so far
  Time probed_at_{};          // when the last one ended
  uint32_t long_probes_ = 0;  // in a row
};

}  // namespace uroce::transport
