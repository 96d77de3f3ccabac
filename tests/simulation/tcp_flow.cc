#include "tests/simulation/tcp_flow.h"

#include <algorithm>
#include <cmath>

namespace uroce::transport::simulation {
namespace {

constexpr uint32_t kAckBytes = 66;
constexpr uint64_t kDuplicateThreshold = 3;
constexpr double kDecrease = 0.7;
constexpr double kCubic = 0.4;
constexpr Duration kMinTimeout = Milliseconds(200);
constexpr double kMaxWindow = 4'096;  // 6 MB, the default of a Linux receiver

}  // namespace

TcpFlow::TcpFlow(Simulator& simulator, Bottleneck& forth, Bottleneck& back)
    : simulator_(simulator), forth_(forth), back_(back) {}

void TcpFlow::Start() { Transmit(); }

void TcpFlow::Transmit() {
  while (static_cast<double>(in_flight_.size()) < std::min(window_, kMaxWindow)) {
    const uint64_t packet = next_++;
    const Time sent = simulator_.now();
    in_flight_.insert(packet);
    forth_.Send(Frame(kPacketBytes), [this, packet, sent](const Frame&) {
      ++delivered_;
      back_.Send(Frame(kAckBytes),
                 [this, packet, sent](const Frame&) { OnAcknowledged(packet, sent); });
    });
  }
  ArmTimer();
}

void TcpFlow::OnAcknowledged(uint64_t packet, Time sent) {
  if (in_flight_.erase(packet) == 0) return;
  round_trip_ = {(round_trip_.ns * 7 + (simulator_.now() - sent).ns) / 8};
  Grow();
  const uint64_t lost_end = packet - std::min(packet, kDuplicateThreshold);
  if (const auto end = in_flight_.lower_bound(lost_end); end != in_flight_.begin()) {
    const uint64_t newest = *std::prev(end);
    in_flight_.erase(in_flight_.begin(), end);
    OnLoss(newest);
  }
  Transmit();
}

void TcpFlow::OnLoss(uint64_t newest_lost) {
  if (newest_lost < recovery_end_) return;
  recovery_end_ = next_;
  window_at_loss_ = window_;
  window_ = threshold_ = reno_window_ = std::max(2.0, window_ * kDecrease);
  epoch_ = simulator_.now();
}

// RFC 9438, section 4: the cubic window, and at least that of Reno.
void TcpFlow::Grow() {
  if (window_ < threshold_) {
    window_ += 1;
    return;
  }
  const double elapsed = static_cast<double>((simulator_.now() - epoch_).ns) * 1e-9;
  const double plateau = std::cbrt(window_at_loss_ * (1 - kDecrease) / kCubic);
  const double target = kCubic * std::pow(elapsed - plateau, 3) + window_at_loss_;
  reno_window_ += 3 * (1 - kDecrease) / (1 + kDecrease) / window_;
  const double bounded = std::min(target, window_ * 1.5);
  if (bounded > window_) window_ += (bounded - window_) / window_;
  window_ = std::max(window_, reno_window_);
}

void TcpFlow::ArmTimer() {
  const uint64_t timer = ++timer_;
  simulator_.After(std::max(kMinTimeout, round_trip_ * 2), [this, timer] {
    if (timer != timer_) return;
    in_flight_.clear();
    window_at_loss_ = window_;
    threshold_ = std::max(2.0, window_ * kDecrease);
    reno_window_ = window_ = 1;
    recovery_end_ = next_;
    epoch_ = simulator_.now();
    Transmit();
  });
}

}  // namespace uroce::transport::simulation
