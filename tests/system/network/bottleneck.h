#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string_view>

#include "transport/time.h"

namespace uroce::network {

using transport::Duration;
using transport::Time;

// One direction of a path: what it does to a frame, in this order. It loses frames, alone or in
// bursts; a link takes them from a drop-tail queue at its rate, and marks those that find the queue
// long; then they travel. Some of them travel on a slower way, so that others overtake them.
struct PathSettings {
  double bits_per_second = 0;  // 0: any number
  uint64_t queue_bytes = 1 << 20;
  uint64_t mark_bytes = 0;  // frames that find a longer queue get "congestion experienced"; 0: none
  uint64_t mtu_bytes = 0;   // longer IP packets vanish without a word; 0: none do
  Duration delay;
  Duration jitter;   // of the delay, without reordering
  double loss = 0;   // the chance of each frame
  double burst = 0;  // the chance that a burst of losses begins, of burst_frames on average
  double burst_frames = 0;
  double late = 0;  // the chance that a frame takes the slower way
  Duration late_by;

  // Sets what `key` names: rate (bit/s), queue, mark, mtu (bytes), delay, jitter, late_by (us),
  // loss, burst, burst_frames, late. False for another key.
  bool Set(std::string_view key, double value);
};

// The fate of a frame on the path.
enum class Fate : uint8_t { kDelivered, kQueueFull, kLost, kPathDown, kTooLong };
inline constexpr size_t kFates = 5;

class Bottleneck {
 public:
  struct Transit {
    Fate fate;
    Time arrival;  // if delivered
    bool is_marked = false;
  };

  explicit Bottleneck(uint64_t seed) : random_(seed) {}

  PathSettings& settings() { return settings_; }
  // Loses all frames until then.
  void TakeDown(Time until) { down_until_ = until; }

  // A frame of `bytes`, Ethernet header included and FCS not, enters. Calls have ascending times.
  Transit Send(Time now, size_t bytes);

  // The bytes that wait for the link.
  uint64_t BacklogBytes(Time now) const;

 private:
  bool Happens(double chance) {
    return chance > 0 && std::uniform_real_distribution<double>(0, 1)(random_) < chance;
  }
  bool Loses();

  PathSettings settings_;
  std::mt19937_64 random_;
  Time link_free_at_;
  Time last_arrival_;  // of the frames that keep their order
  Time down_until_;
  uint64_t burst_left_ = 0;
};

}  // namespace uroce::network
