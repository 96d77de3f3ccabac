#include "transport/congestion/delivery_meter.h"

#include <algorithm>

namespace uroce::transport {

void DeliveryMeter::OnSent(Time now, Psn psn, uint32_t spacing, bool is_limited, bool is_repeated) {
  if (count_ != 0 && !psn.IsAfter(At(count_ - 1).psn)) GoBack();
  if (count_ == kRecords) return;
  if (count_ == 0) {
    // Nothing was under way: time passes from now on.
    delivered_at_ = acknowledged_sent_ = now;
  } else if (psn.DistanceFrom(At(count_ - 1).psn) < static_cast<int32_t>(spacing)) {
    return;
  }
  At(count_++) = {.psn = psn,
                  .is_limited = is_limited,
                  .is_repeated = is_repeated,
                  .is_void = false,
                  .sent = now,
                  .earlier_sent = acknowledged_sent_,
                  .delivered = delivered_,
                  .delivered_at = delivered_at_};
}

void DeliveryMeter::OnProbe() {
  if (count_ == 0) return;
  first_ = (first_ + 1) % kRecords;
  --count_;
}

void DeliveryMeter::OnSentAgain(Psn psn, uint32_t packets) {
  for (size_t i = 0; i < count_; ++i) {
    Record& record = At(i);
    if (!record.psn.IsBefore(psn) && record.psn.IsBefore(psn + packets)) record.is_void = true;
  }
}

std::optional<DeliverySample> DeliveryMeter::OnAcknowledged(Time now, Psn end, uint32_t packets) {
  delivered_ += packets;
  delivered_at_ = now;
  std::optional<Record> newest;
  for (; count_ != 0 && At(0).psn.IsBefore(end); --count_) {
    if (!At(0).is_void) newest = At(0);
    first_ = (first_ + 1) % kRecords;
  }
  if (!newest) return std::nullopt;
  if (awaits_train_) {
    awaits_train_ = false;
    train_at_ = now;
    train_sent_ = newest->sent;
    train_delivered_ = delivered_;
  }
  DeliverySample sample;
  const Duration since_sent = now - newest->sent;
  if (!newest->is_repeated) shortest_ = std::min(shortest_, since_sent);
  // A packet that was sent twice may be acknowledged by a response to the first one.
  if (since_sent >= shortest_) sample.packets_per_second = RateOf(*newest, now);
  sample.is_burst = newest->delivered_at < train_at_;
  acknowledged_sent_ = newest->sent;
  sample.is_limited = newest->is_limited;
  sample.ends_round = newest->delivered >= round_end_;
  if (sample.ends_round) round_end_ = delivered_;
  if (!newest->is_repeated) sample.round_trip = since_sent;
  sample.answered_after = since_sent;
  return sample;
}

// The slower of sending and being acknowledged, as ACKs may come in a bunch.
uint64_t DeliveryMeter::RateOf(const Record& record, Time now) const {
  Duration acknowledging = now - record.delivered_at;
  Duration sending = record.sent - record.earlier_sent;
  uint64_t delivered = delivered_ - record.delivered;
  if (record.delivered_at < train_at_) {
    acknowledging = now - train_at_;
    sending = record.sent - train_sent_;
    delivered = delivered_ - train_delivered_;
    // Too short to tell a rate.
    if (acknowledging.ns < (now - record.sent).ns / 4) return 0;
  }
  const int64_t elapsed_ns = std::max({acknowledging.ns, sending.ns, int64_t{1}});
  return delivered * 1'000'000'000 / static_cast<uint64_t>(elapsed_ns);
}

}  // namespace uroce::transport
