#include "transport/recovery/scoreboard.h"

#include <new>

namespace uroce::transport {

std::unique_ptr<Scoreboard> Scoreboard::Make() {
  try {
    return std::make_unique<Scoreboard>();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void Scoreboard::Restart(Psn oldest) {
  oldest_ = frontier_ = newest_ = oldest;
  arrived_.ClearAll();
  lost_.ClearAll();
  sent_again_.ClearAll();
  settled_.ClearAll();
  arrived_count_ = lost_count_ = 0;
  newest_again_at_ = {};
  next_loss_ = kNever;
  has_news_ = false;
}

bool Scoreboard::OnArrived(Time now, Psn psn, Duration shortest) {
  const int32_t distance = psn.DistanceFrom(oldest_);
  if (distance < 0 || distance >= static_cast<int32_t>(kPackets)) return false;
  if (!psn.IsBefore(frontier_)) {
    ExtendTo(psn + 1);
  } else if (arrived_.Has(psn)) {
    return false;
  }
  OnHoleFilled(now, psn, shortest);
  arrived_.Set(psn);
  ++arrived_count_;
  has_news_ = true;
  return true;
}

// Nothing is known of the packets before `end` that were beyond the frontier. Returns `end`, or the
// end of what can be followed.
Psn Scoreboard::ExtendTo(Psn end) {
  if (end.DistanceFrom(oldest_) > static_cast<int32_t>(kPackets)) end = oldest_ + kPackets;
  for (; frontier_.IsBefore(end); ++frontier_) HoleOf(frontier_).overtaken = kNever;
  return end;
}

void Scoreboard::Overtake(Time now, Psn begin, Psn end) {
  end = ExtendTo(end);
  for (Psn psn = begin.IsBefore(oldest_) ? oldest_ : begin; psn.IsBefore(end); ++psn) {
    if (arrived_.Has(psn) || sent_again_.Has(psn) || HoleOf(psn).overtaken != kNever) continue;
    HoleOf(psn).overtaken = now;
    has_news_ = true;
  }
}

// A packet has arrived that was not known to. What comes sooner after it was sent again than a
// round trip was only late.
void Scoreboard::OnHoleFilled(Time now, Psn psn, Duration shortest) {
  const Hole& hole = HoleOf(psn);
  const bool is_original = !sent_again_.Has(psn) || now - hole.sent_again < shortest;
  if (is_original) {
    if (newest_.IsBefore(psn + 1)) newest_ = psn + 1;
    if (hole.overtaken != kNever) Learn(now - hole.overtaken);
  } else {
    const bool is_newer = hole.sent_again > newest_again_at_ ||
                          (hole.sent_again == newest_again_at_ && psn.IsAfter(newest_again_));
    if (is_newer) {
      newest_again_at_ = hole.sent_again;
      newest_again_ = psn;
    }
    if (!hole.is_response) Overtake(now, oldest_, hole.before);
  }
  if (lost_.Has(psn)) --lost_count_;
  lost_.Clear(psn);
  sent_again_.Clear(psn);
}

void Scoreboard::Learn(Duration late_by) {
  learned_wait_ =
      std::min(std::max(learned_wait_, late_by + Duration{late_by.ns / 4}), kLongestWait);
  losses_ = 0;
}

uint32_t Scoreboard::OnAcknowledged(Time now, Psn oldest, Duration shortest) {
  uint32_t unknown = 0;
  for (; oldest_ != oldest && oldest_ != frontier_; ++oldest_) {
    if (arrived_.Has(oldest_)) {
      --arrived_count_;
      arrived_.Clear(oldest_);
      settled_.Clear(oldest_);
    } else {
      ++unknown;
      OnHoleFilled(now, oldest_, shortest);
    }
  }
  if (oldest.IsAfter(oldest_)) {
    unknown += static_cast<uint32_t>(oldest.DistanceFrom(oldest_));
    oldest_ = frontier_ = oldest;
  }
  if (newest_.IsBefore(oldest_)) newest_ = oldest_;
  has_news_ = true;
  return unknown;
}

void Scoreboard::ForgetArrival(Psn psn) {
  if (!HasArrived(psn)) return;
  arrived_.Clear(psn);
  settled_.Clear(psn);
  --arrived_count_;
  HoleOf(psn).overtaken = kNever;
}

uint32_t Scoreboard::MarkLost(Psn begin, Psn end) {
  const uint32_t lost_before = lost_count_;
  end = ExtendTo(end);
  for (; begin.IsBefore(end); ++begin) {
    if (arrived_.Has(begin) || lost_.Has(begin)) continue;
    sent_again_.Clear(begin);
    lost_.Set(begin);
    ++lost_count_;
  }
  return lost_count_ - lost_before;
}

// Calls `visit` for each packet before the frontier that has not arrived.
template <class Visit>
void Scoreboard::ForEachHole(Visit visit) {
  constexpr uint64_t kAll = ~uint64_t{0};
  for (Psn psn = oldest_; psn.IsBefore(frontier_);) {
    if (psn.value() % 64 == 0 && arrived_.WordOf(psn) == kAll) {
      psn = psn + 64;
      continue;
    }
    if (!arrived_.Has(psn)) visit(psn);
    ++psn;
  }
}

Psn Scoreboard::first_lost() const {
  Psn psn = oldest_;
  while (!lost_.Has(psn))
    psn = psn.value() % 64 == 0 && lost_.WordOf(psn) == 0 ? psn + 64 : psn + 1;
  return psn;
}

uint32_t Scoreboard::CountLostFrom(Psn psn, uint32_t most) const {
  uint32_t count = 0;
  while (count < most && IsKnown(psn + count) && lost_.Has(psn + count)) ++count;
  return count;
}

void Scoreboard::OnSentAgain(Time now, Psn psn, uint32_t packets, Psn next, bool is_response) {
  const Psn end = ExtendTo(psn + packets);
  for (; psn.IsBefore(end); ++psn) {
    if (arrived_.Has(psn)) continue;
    if (lost_.Has(psn)) --lost_count_;
    lost_.Clear(psn);
    sent_again_.Set(psn);
    HoleOf(psn).sent_again = now;
    HoleOf(psn).before = next;
    HoleOf(psn).is_response = is_response;
  }
}

// Whether something has arrived that left after `psn` was sent again.
bool Scoreboard::IsOvertaken(Psn psn, const Hole& hole) const {
  if (newest_.IsAfter(hole.before)) return true;
  return hole.sent_again < newest_again_at_ ||
         (hole.sent_again == newest_again_at_ && psn.IsBefore(newest_again_));
}

uint32_t Scoreboard::FindLosses(Time now, Duration shortest) {
  if (!has_news_ && now < next_loss_) return 0;
  has_news_ = false;
  next_loss_ = kNever;
  const uint32_t lost_before = lost_count_;
  const Duration wait = Wait(shortest);
  ForEachHole([&](Psn psn) {
    if (lost_.Has(psn)) return;
    Hole& hole = HoleOf(psn);
    if (sent_again_.Has(psn)) {
      if (!IsOvertaken(psn, hole)) return;
      sent_again_.Clear(psn);
      hole.overtaken = now;
    }
    if (hole.overtaken == kNever) return;
    const Time due = hole.overtaken + wait;
    if (due > now) {
      next_loss_ = std::min(next_loss_, due);
    } else {
      lost_.Set(psn);
      ++lost_count_;
    }
  });
  if (lost_count_ == lost_before) return 0;
  if (learned_wait_.ns != 0 && ++losses_ % kMemory == 0) learned_wait_ = {learned_wait_.ns / 2};
  return lost_count_ - lost_before;
}

}  // namespace uroce::transport
