#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "transport/address.h"
#include "transport/qp_attributes.h"
#include "transport/time.h"

// Pacing: requests leave no faster than the lower of two rates: that of the path or the datagram
// (AddressVector::static_rate), and the queue pair's (RateLimit). They are not predicted.
namespace uroce::transport {

// The rate in kbit/s; 0: none is set, or the port cannot exceed it.
uint32_t PacedKbps(const AddressVector& address, const RateLimit& limit);

// A leaky bucket. It counts the bits of whole frames, Ethernet header to ICRC.
class Pacer {
 public:
  // The rate has changed: what was sent too early so far is made up for at the new rate; if none is
  // set, not at all. The next frame may follow at once.
  void ChangeRate(bool has_rate);
  // A frame was sent. The next one may follow from NextSend on.
  void OnSent(Time now, size_t frame_bytes, uint32_t kbps, uint32_t burst_bytes);
  // If this is not after the time of the last frame, the next one may follow at once.
  Time NextSend() const { return next_; }

 private:
  Time full_{};  // when all sent frames would have left at the rate
  Time next_{};
  uint32_t kbps_ = 0;  // at which full_ is
  bool has_new_rate_ = false;
};

}  // namespace uroce::transport
