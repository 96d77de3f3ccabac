#include "tests/simulation/bottleneck.h"

#include <algorithm>
#include <utility>

#include "transport/wire/ethernet.h"

namespace uroce::transport::simulation {
namespace {

constexpr size_t kTypeOfService = EthernetHeader::kBytes + 1;  // of an IPv4 header
constexpr uint8_t kEcnMask = 3;

Duration TimeOnLine(uint64_t bytes, uint64_t kbps) {
  return {static_cast<int64_t>(bytes * 8 * 1'000'000 / kbps)};
}

// Marks frames of transports that are capable of ECN. The ICRC does not cover the field.
void Mark(Frame& frame) {
  uint8_t& field = frame[kTypeOfService];
  if ((field & kEcnMask) != 0) field |= kEcnMask;
}

}  // namespace

Bottleneck::Bottleneck(Simulator& simulator, Random random, const PathOptions& options)
    : simulator_(simulator), random_(random), options_(options) {}

void Bottleneck::Send(Frame frame, Deliver deliver) {
  const Time now = simulator_.now();
  bytes_offered_ += frame.size();
  if (now >= options_.outage_begin && now < options_.outage_end) return;
  if (random_.Chance(options_.loss_ppm)) return;

  const Duration waiting = std::max(line_free_at_, now) - now;
  const Duration room = TimeOnLine(options_.queue_bytes, options_.kbps);
  const Duration on_line = TimeOnLine(frame.size(), options_.kbps);
  if (waiting + on_line > room) return;
  if (options_.ecn_bytes != 0 && waiting > TimeOnLine(options_.ecn_bytes, options_.kbps)) {
    Mark(frame);
  }
  line_free_at_ = now + waiting + on_line;

  const auto jitter_ns = static_cast<uint64_t>(options_.jitter.ns);
  Time arrival = line_free_at_ + options_.one_way +
                 Duration{static_cast<int64_t>(random_.Below(jitter_ns + 1))};
  if (random_.Chance(options_.reorder_ppm)) {
    arrival = arrival + options_.reorder_delay;
  } else {
    arrival = last_arrival_ = std::max(arrival, last_arrival_);
  }
  simulator_.At(arrival, [frame = std::move(frame), deliver = std::move(deliver)]() mutable {
    deliver(std::move(frame));
  });
}

}  // namespace uroce::transport::simulation
