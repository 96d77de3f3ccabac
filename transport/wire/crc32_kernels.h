#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "transport/wire/crc32.h"

// The implementations of CRC-32 for different processors. Users of the checksum include crc32.h.
namespace uroce::transport {

struct Crc32Kernel {
  std::string_view name;
  uint32_t (*update)(uint32_t state, const uint8_t* data, size_t length);
  bool (*copy_and_update)(uint32_t& state, uint8_t* destination, const uint8_t* source,
                          size_t length);
  uint32_t (*update_masked)(uint32_t state, const uint8_t* data, size_t length,
                            const Crc32Mask& mask);
};

// Table driven, for any processor.
const Crc32Kernel& PortableCrc32Kernel();
// Carry-less multiplication; nullptr if this processor lacks it.
const Crc32Kernel* PclmulCrc32Kernel();  // 128 bits at a time
const Crc32Kernel* Avx512Crc32Kernel();  // 512 bits at a time

// The fastest kernel of this processor: the one that crc32.h uses.
const Crc32Kernel& BestCrc32Kernel();

}  // namespace uroce::transport
