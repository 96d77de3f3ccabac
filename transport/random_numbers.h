#pragma once

#include <array>
#include <cstdint>

namespace uroce::transport {

// 128 secret bits from the kernel's generator. The same seed gives the same numbers, so that a
// simulation can be repeated.
using Seed = std::array<uint64_t, 2>;

// Numbers that a peer cannot guess from those that it has seen: SipHash-2-4 of a counter, with the
// seed as its key (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012).
class RandomNumbers {
 public:
  // Different `stream`s of one seed give unrelated numbers.
  RandomNumbers(const Seed& seed, uint8_t stream) : seed_(seed), next_(uint64_t{stream} << 56) {}

  uint64_t Next();
  // 0 .. `bound` - 1. The bound is small, so that all are practically equally likely.
  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>(Next() % bound); }

 private:
  Seed seed_;
  uint64_t next_;
};

}  // namespace uroce::transport
