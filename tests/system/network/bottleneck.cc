#include "tests/system/network/bottleneck.h"

#include <algorithm>

namespace uroce::network {
namespace {

// Preamble, FCS and gap, which a frame takes on a link besides.
constexpr size_t kLinkOverheadBytes = 24;
constexpr size_t kEthernetBytes = 14;

Duration FromMicroseconds(double us) { return {static_cast<int64_t>(us * 1e3)}; }

}  // namespace

bool PathSettings::Set(std::string_view key, double value) {
  if (key == "rate") {
    bits_per_second = value;
  } else if (key == "queue") {
    queue_bytes = static_cast<uint64_t>(value);
  } else if (key == "mark") {
    mark_bytes = static_cast<uint64_t>(value);
  } else if (key == "mtu") {
    mtu_bytes = static_cast<uint64_t>(value);
  } else if (key == "delay") {
    delay = FromMicroseconds(value);
  } else if (key == "jitter") {
    jitter = FromMicroseconds(value);
  } else if (key == "loss") {
    loss = value;
  } else if (key == "burst") {
    burst = value;
  } else if (key == "burst_frames") {
    burst_frames = value;
  } else if (key == "late") {
    late = value;
  } else if (key == "late_by") {
    late_by = FromMicroseconds(value);
  } else {
    return false;
  }
  return true;
}

uint64_t Bottleneck::BacklogBytes(Time now) const {
  if (settings_.bits_per_second == 0 || link_free_at_ <= now) return 0;
  return static_cast<uint64_t>(static_cast<double>((link_free_at_ - now).ns) *
                               settings_.bits_per_second / 8e9);
}

bool Bottleneck::Loses() {
  if (burst_left_ > 0) {
    --burst_left_;
    return true;
  }
  if (Happens(settings_.burst)) {
    burst_left_ = std::geometric_distribution<uint64_t>(1 / settings_.burst_frames)(random_);
    return true;
  }
  return Happens(settings_.loss);
}

Bottleneck::Transit Bottleneck::Send(Time now, size_t bytes) {
  if (now < down_until_) return {Fate::kPathDown, transport::kNever};
  const bool is_too_long = settings_.mtu_bytes != 0 && bytes - kEthernetBytes > settings_.mtu_bytes;
  if (is_too_long) return {Fate::kTooLong, transport::kNever};
  if (Loses()) return {Fate::kLost, transport::kNever};

  Transit transit{Fate::kDelivered, now};
  if (settings_.bits_per_second != 0) {
    const uint64_t backlog = BacklogBytes(now);
    if (backlog + bytes > settings_.queue_bytes) return {Fate::kQueueFull, transport::kNever};
    transit.is_marked = settings_.mark_bytes != 0 && backlog > settings_.mark_bytes;
    const double on_link_ns = static_cast<double>(bytes + kLinkOverheadBytes) * 8e9;
    link_free_at_ = std::max(link_free_at_, now) +
                    Duration{static_cast<int64_t>(on_link_ns / settings_.bits_per_second)};
    transit.arrival = link_free_at_;
  }
  const double share = std::uniform_real_distribution<double>(0, 1)(random_);
  const auto jitter = static_cast<int64_t>(static_cast<double>(settings_.jitter.ns) * share);
  transit.arrival = std::max(last_arrival_, transit.arrival + settings_.delay + Duration{jitter});
  last_arrival_ = transit.arrival;
  if (Happens(settings_.late)) transit.arrival = transit.arrival + settings_.late_by;
  return transit;
}

}  // namespace uroce::network
