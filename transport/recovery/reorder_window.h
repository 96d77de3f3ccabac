#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "transport/psn.h"
#include "transport/time.h"

namespace uroce::transport {

// How long a responder waits for a packet that others have overtaken, before it reports a loss.
//
// It does not wait at all until the path is known to reorder: a NAK was sent, the packet came, and
// then came again, so the NAK was wrong (RFC 8985 learns the same from duplicate SACKs). From then
// on it waits a little longer than the packet was late. After kMemory NAKs that were right it waits
// half as long.
class ReorderWindow {
 public:
  static constexpr Duration kLongest = Milliseconds(10);
  static constexpr uint32_t kMemory = 16;

  Duration wait() const { return wait_; }

  // A NAK for `psn` was sent: packets behind it had been there since `gap_since`. Not told of the
  // NAKs of one recovery after the first: what they ask for may be on its way already, as a peer
  // that goes back sends all again.
  void OnNak(Psn psn, Time gap_since) { reported_ = {psn, gap_since, {}}; }

  // The missing packet has arrived.
  void OnFilled(Psn psn, Time now) {
    if (!reported_ || reported_->psn != psn || reported_->late_by.ns != 0) return;
    reported_->late_by = now - reported_->gap_since;
    if (wait_.ns != 0 && ++right_naks_ % kMemory == 0) wait_ = {wait_.ns / 2};
  }

  // A packet that was executed before has arrived again.
  void OnDuplicate(Psn psn) {
    if (!reported_ || reported_->psn != psn || reported_->late_by.ns == 0) return;
    const Duration late_by = reported_->late_by;
    wait_ = std::min(std::max(wait_, late_by + Duration{late_by.ns / 4}), kLongest);
    right_naks_ = 0;
    reported_.reset();
  }

 private:
  struct Report {
    Psn psn;
    Time gap_since;
    Duration late_by;  // 0: the packet has not arrived yet
  };

  std::optional<Report> reported_;
  Duration wait_;
  uint32_t right_naks_ = 0;
};

}  // namespace uroce::transport
