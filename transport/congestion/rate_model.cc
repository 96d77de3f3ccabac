#include "transport/congestion/rate_model.h"

#include <algorithm>
#include <utility>

#include "transport/limits.h"

namespace uroce::transport {
namespace {

// Packets in flight before anything is known of the path.
constexpr uint32_t kFirstWindow = 16;
constexpr uint32_t kMinWindow = 2;
// Packets that each connection may have in the queue of the bottleneck, whatever its rate is:
// connections with a lower rate gain by it, until all rates are equal.
constexpr uint32_t kFairShare = 4;
// A software peer answers late by so much without any queue on the path: its process waits for a
// processor. Packets of this time may be in flight beyond what the path holds.
constexpr Duration kHostDelay = Microseconds(500);

// A path with a shorter round trip is not limited without a sign of a queue.
constexpr Duration kShortPath = Microseconds(500);
// A round trip that is longer by an eighth and this shows a queue.
constexpr Duration kNoise = Microseconds(100);
// A round trip of twice the shortest and this is longer than connections make it that all limit
// themselves as this one does.
constexpr Duration kOwnQueue = Microseconds(1'500);

// The rate is the best of two periods of so many round trips. One with a loss that no queue
// explains counts for a quarter: it delivers less than the path carries.
constexpr uint32_t kRoundsInPeriod = 5;
constexpr uint32_t kWeightOfRound = 4;
// A bunch of packets that are acknowledged at once has those of so much time at most.
constexpr Duration kLongestBunch = Milliseconds(4);
// kStartup ends after so many round trips in which the rate has not grown by so many percent. After
// a loss the rate grows more slowly, and so fewer packets are lost when the path is full.
constexpr uint32_t kRoundsWithoutGrowth = 3;
constexpr uint32_t kLossyRoundsWithoutGrowth = 5;
constexpr uint32_t kGrowthPercent = 125;
constexpr uint32_t kLossyGrowthPercent = 110;
constexpr uint32_t kMaxDrainRounds = 4;
// Fewer lost packets in a round trip than these, and than one in so many, are no sign of a queue
// that overflows: it loses a large part of what comes too fast.
constexpr uint32_t kMinLost = 4;
constexpr uint32_t kLostShare = 16;

// A shortest round trip of this age is measured anew; sooner if all are long.
constexpr Duration kShortestAge = Milliseconds(2'500);
constexpr Duration kLongQueueAge = Milliseconds(400);
// So long nearly nothing is in flight, beyond the round trip in which a queue empties: connections
// that share the queue do so at the same time, and see it empty.
constexpr Duration kProbeTime = Milliseconds(10);
// After two long ones in a row, others are known to keep the queue full. After six the path is
// taken to have become longer.
constexpr uint32_t kLongProbesToCompete = 2;
constexpr uint32_t kLongProbesOfALongerPath = 6;

// In percent of the rate. The first doubles the rate each round trip: 2 / ln 2.
constexpr uint32_t kStartupPercent = 289;
constexpr uint32_t kLossyStartupPercent = 125;
constexpr uint32_t kDrainPercent = 35;
constexpr uint32_t kCompetingPercent = 125;
constexpr uint32_t kFasterPercent = 125;
constexpr uint32_t kSlowerPercent = 75;
// Round trips at the rate between two that are faster: more after a loss in a faster one.
constexpr uint32_t kMaxCruiseRounds = 48;
// The share of the packets in flight that is left when a queue has overflowed.
constexpr uint32_t kDecreasePercent = 70;

uint64_t PacketsIn(Duration time, uint64_t packets_per_second) {
  return packets_per_second * static_cast<uint64_t>(time.ns) / 1'000'000'000;
}

Duration TimeOf(uint32_t packets, uint64_t packets_per_second) {
  const uint64_t rate = std::max<uint64_t>(packets_per_second, 1);
  return {static_cast<int64_t>(uint64_t{packets} * 1'000'000'000 / rate)};
}

uint64_t PacketsPerSecond(uint32_t packets, Duration time) {
  return uint64_t{packets} * 1'000'000'000 / static_cast<uint64_t>(std::max<int64_t>(time.ns, 1));
}

}  // namespace

bool RateModel::HasQueue() const {
  return shortest_ && latest_ > Duration{shortest_->ns * 9 / 8} + kNoise;
}

// All round trips have been long for a while, and it is not known yet that others are the cause.
bool RateModel::HasLongQueue() const {
  return !competes_ && recent_[1] != kLongest && IsLong(std::min(recent_[0], recent_[1]));
}

// See kOwnQueue.
bool RateModel::IsLong(Duration round_trip) const {
  return round_trip > *shortest_ * 2 + kOwnQueue;
}

uint64_t RateModel::Product() const { return shortest_ ? PacketsIn(*shortest_, rate()) : 0; }

void RateModel::OnAcknowledged(const Acknowledgement& acknowledgement) {
  const Time now = acknowledgement.now;
  if (const auto& sample = acknowledgement.sample) {
    if (sample->round_trip) {
      UpdateRoundTrip(now, *sample->round_trip);
    } else if (shortest_ && sample->answered_after > *shortest_) {
      latest_ = sample->answered_after;
    }
    UpdateRate(*sample);
    if (sample->ends_round) OnRound(sample->is_limited);
  }
  UpdateBunch(now, acknowledgement.packets);
  FollowPhase(now, acknowledgement.in_flight);
}

void RateModel::UpdateRoundTrip(Time now, Duration round_trip) {
  latest_ = round_trip;
  recent_[0] = std::min(recent_[0], round_trip);
  if (phase_ == Phase::kProbeRoundTrip) probed_ = std::min(probed_, round_trip);
  if (!shortest_ || round_trip <= *shortest_) {
    shortest_ = round_trip;
    shortest_at_ = now;
  }
}

void RateModel::UpdateRate(const DeliverySample& sample) {
  const bool tells_nothing =
      (sample.is_limited && sample.packets_per_second < rate()) || (sample.is_burst && HasQueue());
  if (!tells_nothing) rates_[0] = std::max(rates_[0], sample.packets_per_second);
}

// How many packets are acknowledged at once beyond the rate, as the peer has waited for a
// processor. If no more were in flight than the path holds, the sender would wait with it.
void RateModel::UpdateBunch(Time now, uint32_t packets) {
  const bool starts = phase_ == Phase::kQuiet || phase_ == Phase::kStartup;
  // A repaired loss lets many packets be acknowledged that had arrived earlier.
  if (starts || lost_in_round_ != 0) {
    bunch_end_ = now;
    return;
  }
  const Duration at_the_rate = TimeOf(packets, rate());
  bunch_end_ = std::min(std::max(bunch_end_, now) + at_the_rate, now + kLongestBunch);
  bunches_[0] = std::max(bunches_[0], PacketsIn(bunch_end_ - now, rate()));
}

void RateModel::OnRound(bool is_limited) {
  const bool has_lost = std::exchange(lost_in_round_, 0) != 0;
  // The rate of a round trip in which nearly nothing was in flight tells nothing of the path.
  if (is_limited || phase_ == Phase::kQuiet || phase_ == Phase::kProbeRoundTrip) return;
  if (phase_ == Phase::kStartup) return OnStartupRound();
  if (bound_ < kMaxCongestionWindow) ++bound_;
  drain_rounds_ += phase_ == Phase::kDrain;
  rounds_in_period_ += has_lost && !HasQueue() ? 1 : kWeightOfRound;
  if (rounds_in_period_ < kRoundsInPeriod * kWeightOfRound) return;
  rounds_in_period_ = 0;
  rates_ = {0, rates_[0]};
  recent_ = {kLongest, recent_[0]};
  bunches_ = {0, bunches_[0]};
}

void RateModel::OnStartupRound() {
  const uint32_t growth_percent = lost_in_startup_ ? kLossyGrowthPercent : kGrowthPercent;
  if (rate() >= full_rate_ * growth_percent / 100) {
    full_rate_ = rate();
    rounds_without_growth_ = 0;
    return;
  }
  const uint32_t most = lost_in_startup_ ? kLossyRoundsWithoutGrowth : kRoundsWithoutGrowth;
  if (++rounds_without_growth_ > most) phase_ = Phase::kDrain;
}

void RateModel::FollowPhase(Time now, uint32_t in_flight) {
  switch (phase_) {
    case Phase::kQuiet:
      if (shortest_ && (*shortest_ > kShortPath || IsLong(latest_))) phase_ = Phase::kStartup;
      return;
    case Phase::kStartup:
      return;
    case Phase::kDrain:
      if (in_flight > Product() && drain_rounds_ < kMaxDrainRounds) return;
      return HasQueue() ? EnterProbe(now) : EnterCruise(now);
    case Phase::kProbeRoundTrip:
      if (now < phase_end_) return;
      OnProbed(now);
      return EnterCruise(now);
    case Phase::kCruise:
      if (IsShortestOld(now)) return EnterProbe(now);
      FollowCycle(now, in_flight);
  }
}

bool RateModel::IsShortestOld(Time now) const {
  const Duration age = now - (competes_ ? probed_at_ : std::max(shortest_at_, probed_at_));
  return age > (HasLongQueue() ? kLongQueueAge : kShortestAge);
}

void RateModel::EnterProbe(Time now) {
  phase_ = Phase::kProbeRoundTrip;
  phase_end_ = now + latest_ + (HasQueue() ? kProbeTime : Duration{});
  probed_ = latest_;
}

void RateModel::OnProbed(Time now) {
  probed_at_ = now;
  long_probes_ = IsLong(probed_) ? long_probes_ + 1 : 0;
  const bool is_real = long_probes_ == 0 || long_probes_ == kLongProbesOfALongerPath;
  const bool competes = !is_real && long_probes_ >= kLongProbesToCompete;
  if (competes && !competes_) bound_ = kMaxCongestionWindow;
  competes_ = competes;
  if (!is_real) return;
  shortest_ = probed_;
  long_probes_ = 0;
}

void RateModel::EnterCruise(Time now) {
  phase_ = Phase::kCruise;
  cycle_phase_ = 2 + seed_ % kFirstCruiseRounds;
  cycle_phase_at_ = now;
}

void RateModel::FollowCycle(Time now, uint32_t in_flight) {
  const bool is_over = now - cycle_phase_at_ > *shortest_;
  const bool is_faster = cycle_phase_ == 0;
  const bool is_slower = cycle_phase_ == 1;
  if (is_slower ? !is_over && in_flight > Product() : !is_over) return;
  if (is_faster) bound_ = std::max<uint64_t>(bound_, in_flight);
  if (cycle_phase_ == 2) lost_in_cruise_ = false;
  cycle_phase_at_ = now;
  if (++cycle_phase_ >= 2 + cruise_rounds_) {
    cycle_phase_ = 0;
    cruise_rounds_ = std::max(kFirstCruiseRounds, cruise_rounds_ - 1);
  }
}

// A queue has overflowed, or a packet was lost at random. What tells them apart is the round trip
// and, if the queue is too short for that, losses only in round trips that were faster.
void RateModel::OnLoss(Time now, uint32_t packets, uint32_t in_flight) {
  const uint32_t many = std::max(kMinLost, in_flight / kLostShare);
  const bool were_few = lost_in_round_ < many;
  lost_in_round_ += packets;
  const bool are_few = lost_in_round_ < many;
  if (are_few && !HasQueue()) return;
  if (phase_ == Phase::kQuiet && !HasQueue()) return;
  if (phase_ == Phase::kQuiet || phase_ == Phase::kStartup) {
    if (were_few && !are_few) OnLossInStartup();
    return;
  }
  if (now - lost_at_ < latest_) return;
  lost_at_ = now;

  const bool cruises = phase_ == Phase::kCruise && !competes_;
  const bool was_faster = cruises && cycle_phase_ <= 2 && !lost_in_cruise_;
  if (cruises && cycle_phase_ > 2) lost_in_cruise_ = true;
  if (was_faster) {
    cycle_phase_ = 2;
    cycle_phase_at_ = now;
    cruise_rounds_ = std::min(cruise_rounds_ * 2, kMaxCruiseRounds);
  }
  const bool may_probe = probed_at_ == Time{} || now - probed_at_ > kLongQueueAge;
  if (cruises && may_probe && IsLong(latest_)) return EnterProbe(now);
  // Losses of two round trips are one event: the queue is still full.
  const bool is_new_event = now - bound_at_ > latest_ * 2;
  if (is_new_event && (was_faster || HasQueue())) Bound(now, in_flight);
}

void RateModel::OnLossInStartup() {
  lost_in_startup_ = true;
  phase_ = HasQueue() ? Phase::kDrain : Phase::kStartup;
  if (phase_ == Phase::kStartup) OnStartupRound();
}

// The queue of the bottleneck does not hold so much.
void RateModel::Bound(Time now, uint32_t in_flight) {
  bound_at_ = now;
  const uint64_t held = std::max(in_flight, limits().window / 2);
  const uint64_t least = competes_ ? 0 : Product();
  bound_ = std::max<uint64_t>({kMinWindow, least, held * kDecreasePercent / 100});
}

uint32_t RateModel::PercentOfRate() const {
  switch (phase_) {
    case Phase::kQuiet:
    case Phase::kStartup:
      return lost_in_startup_ ? kLossyStartupPercent : kStartupPercent;
    case Phase::kDrain:
      return kDrainPercent;
    case Phase::kProbeRoundTrip:
      return 100;
    case Phase::kCruise:
      break;
  }
  if (competes_) return kCompetingPercent;
  return cycle_phase_ == 0 ? kFasterPercent : cycle_phase_ == 1 ? kSlowerPercent : 100;
}

uint64_t RateModel::Window() const {
  const uint64_t host = std::max({PacketsIn(kHostDelay, rate()), bunches_[0], bunches_[1]});
  const uint64_t window = Product() * 2 + host + kFairShare;
  switch (phase_) {
    case Phase::kQuiet:
      return kMaxPacketsInFlight;
    case Phase::kStartup:
      return std::max<uint64_t>(window * 3 / 2, kFirstWindow);
    case Phase::kProbeRoundTrip:
      return Product() / 2;
    default:
      break;
  }
  if (!competes_) return std::min(window, bound_);
  // As much as the queue of the others lets through, and half as much again.
  const Duration round_trip = std::min(recent_[0], recent_[1]);
  return std::min(PacketsIn(round_trip, rate()) * 3 + kFirstWindow, bound_);
}

CongestionLimits RateModel::limits() const {
  if (!shortest_ || rate() == 0) return {kFirstWindow, 0};
  if (phase_ == Phase::kQuiet) return {kMaxPacketsInFlight, 0};
  // Never slower than a few packets in each round trip.
  const bool starts = phase_ == Phase::kStartup;
  const uint64_t least =
      starts ? PacketsPerSecond(kFirstWindow, *shortest_) : PacketsPerSecond(kMinWindow, latest_);
  const uint64_t pace = std::max({rate() * PercentOfRate() / 100, least, uint64_t{1}});
  const auto window = std::clamp<uint64_t>(Window(), kMinWindow, kMaxCongestionWindow);
  return {static_cast<uint32_t>(window), static_cast<int64_t>(1'000'000'000 / pace)};
}

}  // namespace uroce::transport
