#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::transport {

// A partition key: the partition number in the low 15 bits; bit 15 is set for a full member of the
// partition, clear for a limited one.
inline constexpr uint16_t kFullMember = 0x8000;
inline constexpr uint16_t kDefaultPkey = 0xffff;  // full member of the default partition
inline constexpr size_t kMaxPkeys = 128;          // entries in the P_Key table of a port

constexpr uint16_t PartitionOf(uint16_t pkey) { return pkey & 0x7fff; }

// IBA 10.9.3: the same partition, and not both limited members.
constexpr bool PkeysMatch(uint16_t a, uint16_t b) {
  return PartitionOf(a) == PartitionOf(b) && ((a | b) & kFullMember) != 0;
}

}  // namespace uroce::transport
