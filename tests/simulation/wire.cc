#include "tests/simulation/wire.h"

#include <algorithm>
#include <utility>

#include "tests/simulation/checksum.h"

namespace uroce::transport::simulation {

namespace {

// How long a frame waits to be overtaken when no frame follows.
constexpr Duration kReorderTimeout = Microseconds(200);

}  // namespace

Wire::Wire(Simulator& simulator, Random random, const Impairments& impairments, Hooks hooks)
    : simulator_(simulator), random_(random), impairments_(impairments), hooks_(std::move(hooks)) {}

void Wire::SilenceUntil(Time until) { silent_until_ = std::max(silent_until_, until); }

void Wire::Heal() {
  Impairments healed;
  healed.latency = impairments_.latency;
  healed.jitter = impairments_.jitter;
  healed.bytes_per_us = impairments_.bytes_per_us;
  impairments_ = healed;
  burst_left_ = 0;
  silent_until_ = {};
}

void Wire::Follow(nic::FaultInjector& faults, nic::FaultDirection direction) {
  faults_ = &faults;
  direction_ = direction;
}

void Wire::Send(Frame frame) {
  if (hooks_.tamper) hooks_.tamper(frame);
  const nic::FaultAction* fault =
      faults_ == nullptr ? nullptr : faults_->OnFrame(direction_, frame);
  if (fault == nullptr) {
    SendOn(std::move(frame));
  } else if (MeetFault(*fault, frame)) {
    Deliver(std::move(frame));
  } else {
    return;
  }
  held_.Overtaken();
  ReleaseHeld();
}

bool Wire::MeetFault(const nic::FaultAction& fault, Frame& frame) {
  using Kind = nic::FaultAction::Kind;
  switch (fault.kind) {
    case Kind::kDrop:
      Impaired(frame, "lost");
      return false;
    case Kind::kDuplicate:
      Impaired(frame, "doubled");
      held_.Hold({.bytes = frame}, kNever, 1);
      return true;
    case Kind::kDelay:
    case Kind::kReorder: {
      Impaired(frame, "held-back");
      const Time due =
          simulator_.now() + (fault.kind == Kind::kDelay ? fault.delay : kReorderTimeout);
      held_.Hold({.bytes = frame}, due, fault.frames);
      simulator_.At(due, [this] { ReleaseHeld(); });
      return false;
    }
    case Kind::kCorrupt:
      Impaired(frame, "corrupted");
      ChangeFrame(fault, frame);
      return true;
    case Kind::kMarkCongestion:
      ChangeFrame(fault, frame);  // a perfect wire may mark too
      return true;
  }
  return true;
}

void Wire::ReleaseHeld() {
  while (auto frame = held_.TakeDue(simulator_.now())) Deliver(std::move(frame->bytes));
}

// Skips the random impairments.
void Wire::Deliver(Frame frame) {
  bool full = false;
  const Time arrival = Transmit(frame.size(), &full);
  if (full) return Impaired(frame, "tail-drop");
  last_arrival_ = std::max(arrival, last_arrival_);
  DeliverAt(last_arrival_, std::move(frame));
}

void Wire::SendOn(Frame frame) {
  if (simulator_.now() < silent_until_) return Impaired(frame, "silenced");
  if (Loses()) return Impaired(frame, "lost");
  bool full = false;
  Time arrival = Transmit(frame.size(), &full);
  if (full) return Impaired(frame, "tail-drop");

  if (random_.Chance(impairments_.corrupt_ppm)) {
    Impaired(frame, "corrupted");
    FlipBits(frame, 14);  // the Ethernet FCS, not modelled here, protects that header
  }
  if (random_.Chance(impairments_.reseal_ppm)) {
    Impaired(frame, "resealed");
    FlipBits(frame, NetworkHeaderBytes(frame));
    Reseal(frame);
  }
  const auto held_back_ns = static_cast<uint64_t>(impairments_.held_back.ns);
  if (random_.Chance(impairments_.duplicate_ppm)) {
    Impaired(frame, "doubled");
    DeliverAt(arrival + Duration{static_cast<int64_t>(random_.Between(1, held_back_ns))}, frame);
  }
  if (random_.Chance(impairments_.reorder_ppm)) {
    Impaired(frame, "held-back");
    arrival = arrival + Duration{static_cast<int64_t>(random_.Between(1, held_back_ns))};
  } else {
    arrival = last_arrival_ = std::max(arrival, last_arrival_);
  }
  DeliverAt(arrival, std::move(frame));
}

bool Wire::Loses() {
  if (burst_left_ > 0) {
    --burst_left_;
    return true;
  }
  if (random_.Chance(impairments_.burst_ppm)) {
    burst_left_ = random_.Below(impairments_.burst_frames);
    return true;
  }
  return random_.Chance(impairments_.loss_ppm);
}

Time Wire::Transmit(size_t bytes, bool* full) {
  const auto jitter_ns = static_cast<uint64_t>(impairments_.jitter.ns);
  const Duration delay =
      impairments_.latency + Duration{static_cast<int64_t>(random_.Below(jitter_ns + 1))};
  if (impairments_.bytes_per_us == 0) return simulator_.now() + delay;
  if (impairments_.queue_frames != 0 && frames_queued_ >= impairments_.queue_frames) {
    *full = true;
    return {};
  }
  const Duration on_line{static_cast<int64_t>(bytes * 1'000 / impairments_.bytes_per_us)};
  line_free_at_ = std::max(line_free_at_, simulator_.now()) + on_line;
  ++frames_queued_;
  simulator_.At(line_free_at_, [this] { --frames_queued_; });
  return line_free_at_ + delay;
}

void Wire::FlipBits(Frame& frame, size_t first_byte) {
  if (frame.size() <= first_byte) return;
  // CRC-32 detects up to three flipped bits in a frame of this size.
  for (uint64_t flips = random_.Between(1, 3); flips > 0; --flips) {
    const uint64_t bit = random_.Below((frame.size() - first_byte) * 8);
    frame[first_byte + bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
  }
}

void Wire::DeliverAt(Time time, Frame frame) {
  simulator_.At(time,
                [this, frame = std::move(frame)]() mutable { hooks_.deliver(std::move(frame)); });
}

void Wire::Impaired(const Frame& frame, const char* what) { hooks_.impaired(frame, what); }

}  // namespace uroce::transport::simulation
