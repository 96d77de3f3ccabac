#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "transport/address.h"
#include "transport/qp_attributes.h"
#include "transport/time.h"

// A queue pair whose requests leave no faster than a rate says: that of its path or of a datagram's
// (AddressVector::static_rate) or its own (RateLimit), whichever is lower. It uses no short way.
namespace uroce::transport {

// In kbit/s; 0: no rate is asked for, or none that the port could exceed.
uint32_t PacedKbps(const AddressVector& address, const RateLimit& limit);

// A leaky bucket. Bits are counted as frames have them, Ethernet header to ICRC.
class Pacer {
 public:
  // A frame was sent. From the time that NextSend says on, the next one may follow.
  void OnSent(Time now, size_t frame_bytes, uint32_t kbps, uint32_t burst_bytes);
  // Not after the time of the last frame: it may follow at once.
  Time NextSend() const { return next_; }

 private:
  Time full_{};  // when all that was sent would have left at the rate
  Time next_{};
};

}  // namespace uroce::transport
