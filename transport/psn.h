#pragma once

#include <cstdint>

namespace uroce::transport {

// A packet sequence number: 24 bits, counted modulo 2^24 (IBA 9.7.1).
//
// Two PSNs are ordered only within half the number space: of two PSNs less than 2^23 apart the one
// reached by counting up is the later one. There is no operator< on purpose: it would not be
// transitive.
class Psn {
 public:
  static constexpr uint32_t kMask = 0xff'ffff;

  constexpr Psn() = default;
  constexpr explicit Psn(uint32_t value) : value_(value & kMask) {}

  constexpr uint32_t value() const { return value_; }

  constexpr bool operator==(const Psn&) const = default;
  constexpr Psn operator+(uint32_t packets) const { return Psn(value_ + packets); }
  constexpr Psn operator-(uint32_t packets) const { return Psn(value_ - packets); }
  constexpr Psn& operator++() { return *this = *this + 1; }

  // How many packets `this` lies after `other`: -2^23 .. 2^23 - 1.
  constexpr int32_t DistanceFrom(Psn other) const {
    // Shift the 24-bit difference to the top of the word so that its bit 23 becomes the sign.
    return static_cast<int32_t>((value_ - other.value_) << 8) >> 8;
  }
  constexpr bool IsBefore(Psn other) const { return DistanceFrom(other) < 0; }
  constexpr bool IsAfter(Psn other) const { return DistanceFrom(other) > 0; }

 private:
  uint32_t value_ = 0;
};

}  // namespace uroce::transport
