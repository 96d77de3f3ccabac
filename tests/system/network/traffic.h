#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <span>

#include "tests/system/network/bottleneck.h"
#include "transport/ids.h"
#include "transport/psn.h"

namespace uroce::network {

enum class Traffic : uint8_t { kRoce, kTcp, kOther };
inline constexpr size_t kTraffics = 3;

// The kind of a frame. `packet`: from the BTH on, empty if it is not RoCE.
struct FrameKind {
  Traffic traffic = Traffic::kOther;
  std::span<const uint8_t> packet;
};
FrameKind KindOf(std::span<const uint8_t> frame);

// Sets "congestion experienced" in a frame whose sender takes part in ECN (RFC 3168). False, and
// nothing has changed, if it does not.
bool Mark(std::span<uint8_t> frame);

// The packets of a direction that go to one queue pair, counted where they enter the path.
struct RoceStream {
  uint64_t fresh_packets = 0;  // with data, of PSNs never seen before
  uint64_t resent_packets = 0;
  uint64_t fresh_bytes = 0;  // their payload
  uint64_t read_requests = 0;
  uint64_t read_requests_again = 0;
  uint64_t acks = 0;
  uint64_t sequence_naks = 0;
  uint64_t other_naks = 0;  // RNR NAKs too
  uint64_t congestion_notifications = 0;

  void Count(std::span<const uint8_t> packet);

 private:
  bool TakePsn(transport::Psn psn);

  std::optional<transport::Psn> highest_;
};

// Counters of one direction of the path.
class TrafficCounters {
 public:
  // A frame has entered; `host` is the end that is not the receiver.
  void Count(size_t host, const FrameKind& kind, size_t frame_bytes, Fate fate, bool is_marked,
             uint64_t backlog_bytes);
  // As a JSON object: bytes and frames in and out for each host and kind of traffic, what was lost
  // by reason, RoCE packets for each host and queue pair.
  void Print(std::ostream& out) const;

 private:
  struct Volume {
    uint64_t frames_in = 0;
    uint64_t bytes_in = 0;
    uint64_t frames_out = 0;
    uint64_t bytes_out = 0;
  };

  std::array<uint64_t, kFates> fates_{};
  uint64_t marked_ = 0;
  uint64_t longest_queue_bytes_ = 0;
  std::map<std::pair<size_t, Traffic>, Volume> volumes_;
  std::map<std::pair<size_t, uint32_t>, RoceStream> streams_;  // by host and destination QPN
};

}  // namespace uroce::network
