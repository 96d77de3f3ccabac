#include "transport/qp/pacing.h"

#include <array>
#include <utility>

#include "transport/limits.h"

namespace uroce::transport {
namespace {

// By the values of enum ibv_rate, in tenths of Gbit/s; 0: the value stands for no rate.
constexpr std::array<uint32_t, 25> kStaticRates = {
    0,     0,     25,  100,   300,   50,    200,    400,   600,    //
    800,   1'200, 140, 560,   1'120, 1'680, 250,    1'000, 2'000,  //
    3'000, 280,   500, 4'000, 6'000, 8'000, 12'000,
};

uint32_t StaticKbps(uint8_t static_rate) {
  const uint32_t tenths = static_rate < kStaticRates.size() ? kStaticRates[static_rate] : 0;
  const uint64_t kbps = uint64_t{tenths} * 100'000;
  return kbps < kMaxRateKbps ? static_cast<uint32_t>(kbps) : 0;
}

// The default burst: the timers of a program that sleeps are late, and the burst makes up for the
// time that they let pass.
constexpr uint32_t kDefaultBurstBytes = 65'536;

Duration TimeFor(uint64_t bytes, uint32_t kbps) {
  return {static_cast<int64_t>(bytes * 8 * 1'000'000 / kbps)};
}

}  // namespace

uint32_t PacedKbps(const AddressVector& address, const RateLimit& limit) {
  const uint32_t of_path = StaticKbps(address.static_rate);
  if (of_path == 0 || limit.kbps == 0) return std::max(of_path, limit.kbps);
  return std::min(of_path, limit.kbps);
}

void Pacer::ChangeRate(bool has_rate) {
  if (!has_rate) *this = {};
  has_new_rate_ = true;
}

void Pacer::OnSent(Time now, size_t frame_bytes, uint32_t kbps, uint32_t burst_bytes) {
  if (std::exchange(has_new_rate_, false) && full_ > now) {
    const double factor = static_cast<double>(kbps_) / kbps;
    full_ = now + Duration{static_cast<int64_t>(static_cast<double>((full_ - now).ns) * factor)};
  }
  kbps_ = kbps;
  full_ = std::max(full_, now) + TimeFor(frame_bytes, kbps);
  const uint32_t burst = burst_bytes != 0 ? burst_bytes : kDefaultBurstBytes;
  const uint64_t ahead = burst - std::min<uint64_t>(burst, frame_bytes);
  next_ = Time{full_.ns - TimeFor(ahead, kbps).ns};
}

}  // namespace uroce::transport
