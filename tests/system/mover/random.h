// Pseudo-random numbers, the same for both ends of a run and for every run with the same seed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace mover {

// splitmix64 (Steele, Lea and Flood, OOPSLA 2014): a good mix of every bit of `x`.
constexpr uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

class Random {
 public:
  explicit Random(uint64_t seed) : state_(Mix(seed)) {}

  uint64_t Next() { return Mix(state_++); }
  // 0 .. bound - 1
  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>(Next() % bound); }
  // low .. high
  uint32_t Between(uint32_t low, uint32_t high) { return low + Below(high - low + 1); }
  bool Chance(uint32_t percent) { return Below(100) < percent; }

 private:
  uint64_t state_;
};

// The word at index `index` of the pattern that belongs to `seed`.
constexpr uint64_t PatternWord(uint64_t seed, uint64_t index) { return Mix(Mix(seed) + index); }

inline void FillWithPattern(std::span<uint8_t> bytes, uint64_t seed) {
  for (size_t offset = 0; offset < bytes.size(); offset += sizeof(uint64_t)) {
    const uint64_t word = PatternWord(seed, offset / sizeof(word));
    std::memcpy(bytes.data() + offset, &word, std::min(sizeof(word), bytes.size() - offset));
  }
}

}  // namespace mover
