#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>

namespace uroce::transport::simulation {

// The only source of chance in a simulation (SplitMix64): the same on every machine and compiler,
// which the distributions of <random> are not.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  // 0 .. bound - 1; 0 for a bound of 0.
  uint64_t Below(uint64_t bound) { return bound == 0 ? 0 : Next() % bound; }
  // Both ends included.
  uint64_t Between(uint64_t low, uint64_t high) { return low + Below(high - low + 1); }
  bool Chance(uint32_t per_million) { return Below(1'000'000) < per_million; }
  bool Percent(uint32_t percent) { return Below(100) < percent; }

  template <class T>
  T Pick(std::initializer_list<T> values) {
    return values.begin()[Below(values.size())];
  }

  // A stream of its own, so that what one part draws does not shift what another part gets.
  Random Fork() { return Random(Next()); }

  void Fill(std::span<uint8_t> bytes) {
    size_t at = 0;
    for (; at + 8 <= bytes.size(); at += 8) {
      const uint64_t word = Next();
      std::memcpy(&bytes[at], &word, 8);
    }
    for (uint64_t word = Next(); at < bytes.size(); ++at, word >>= 8) {
      bytes[at] = static_cast<uint8_t>(word);
    }
  }

 private:
  uint64_t state_;
};

}  // namespace uroce::transport::simulation
