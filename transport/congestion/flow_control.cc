#include "transport/congestion/flow_control.h"

#include <algorithm>
#include <utility>

namespace uroce::transport {
namespace {

// A burst is so long at the rate of the path, and has at least two packets.
constexpr Duration kBurst = Microseconds(100);
constexpr uint32_t kMinBurst = 2;
constexpr uint32_t kMaxBurst = 64;
constexpr Duration kPeersBurst = Milliseconds(2);
// The timers of a program that sleeps are late. Packets make up for so much of it.
constexpr Duration kMaxLate = Milliseconds(1);
constexpr uint32_t kRecordsInWindow = DeliveryMeter::kRecords / 2;

}  // namespace

void FlowControl::Restart() {
  control_->Restart();
  limits_ = control_->limits();
  next_send_ = {};
  was_refused_ = was_late_ = false;
  late_psn_.reset();
  made_up_ = {};
  meter_.Restart();
}

uint32_t FlowControl::longest_burst() const {
  if (limits_.ns_a_packet == 0) return limits_.window;
  return static_cast<uint32_t>(kPeersBurst.ns / limits_.ns_a_packet) + 1;
}

void FlowControl::OnSent(Time now, Psn psn, uint32_t psns, bool is_limited, bool is_repeated) {
  const uint32_t spacing = limits_.window / kRecordsInWindow;
  if (std::exchange(was_late_, false)) late_psn_ = psn;
  is_limited |= late_psn_.has_value();
  meter_.OnSent(now, psn, spacing, is_limited, is_repeated);
  // The first response of several tells the round trip, and the last one the rate.
  if (psns > 1) meter_.OnSent(now, psn + (psns - 1), spacing, is_limited, /*is_repeated=*/true);
}

std::optional<Duration> FlowControl::OnAcknowledged(Time now, Psn end, uint32_t packets,
                                                    uint32_t in_flight) {
  auto sample = meter_.OnAcknowledged(now, end, packets);
  if (sample && was_refused_ && now - next_send_ > kMaxLate) sample->is_limited = true;
  if (late_psn_ && end.IsAfter(*late_psn_)) late_psn_.reset();
  control_->OnAcknowledged(
      {.now = now, .packets = packets, .in_flight = in_flight, .sample = sample});
  FollowLimits(now);
  return sample ? sample->round_trip : std::nullopt;
}

void FlowControl::OnLoss(Time now, uint32_t packets, uint32_t in_flight) {
  control_->OnLoss(now, packets, in_flight);
  FollowLimits(now);
}

// Packets that have left too early are made up for at the new rate.
void FlowControl::FollowLimits(Time now) {
  const int64_t before = limits_.ns_a_packet;
  limits_ = control_->limits();
  if (next_send_ <= now || before == 0 || before == limits_.ns_a_packet) return;
  const double change = static_cast<double>(limits_.ns_a_packet) / static_cast<double>(before);
  next_send_ =
      now + Duration{static_cast<int64_t>(static_cast<double>((next_send_ - now).ns) * change)};
}

uint32_t FlowControl::TakePermit(Time now, uint32_t sent) {
  if (limits_.ns_a_packet == 0) return kMaxBurst;
  // Only time that was spent waiting for this permit is made up for.
  was_late_ |= was_refused_ && now - next_send_ > kMaxLate;
  if (was_refused_) made_up_ = std::clamp(now - next_send_, Duration{}, kMaxLate);
  next_send_ = std::max(next_send_, Time{now.ns - made_up_.ns}) +
               Duration{limits_.ns_a_packet * static_cast<int64_t>(sent)};
  made_up_ = std::clamp(now - next_send_, Duration{}, made_up_);
  was_refused_ = next_send_ > now;
  if (was_refused_) return 0;
  const int64_t burst_ns = kBurst.ns + (now - next_send_).ns;
  return std::clamp(static_cast<uint32_t>(burst_ns / limits_.ns_a_packet), kMinBurst, kMaxBurst);
}

}  // namespace uroce::transport
