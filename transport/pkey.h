#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::transport {

// A partition key: the number of a partition in 15 bits, and above it whether its holder is a full
// member of the partition or a limited one.
inline constexpr uint16_t kFullMember = 0x8000;
inline constexpr uint16_t kDefaultPkey = 0xffff;  // full member of the partition that all are in
inline constexpr size_t kMaxPkeys = 128;          // of a port

constexpr uint16_t PartitionOf(uint16_t pkey) { return pkey & 0x7fff; }

// IBA 10.9.3: the same partition, and not both limited members.
constexpr bool PkeysMatch(uint16_t a, uint16_t b) {
  return PartitionOf(a) == PartitionOf(b) && ((a | b) & kFullMember) != 0;
}

}  // namespace uroce::transport
