#include "transport/wire/crc32.h"

#include "transport/wire/crc32_kernels.h"

namespace uroce::transport {

const Crc32Kernel& BestCrc32Kernel() {
  static const Crc32Kernel& best = []() -> const Crc32Kernel& {
    if (const Crc32Kernel* avx512 = Avx512Crc32Kernel()) return *avx512;
    if (const Crc32Kernel* pclmul = PclmulCrc32Kernel()) return *pclmul;
    return PortableCrc32Kernel();
  }();
  return best;
}

uint32_t Crc32Update(uint32_t state, const uint8_t* data, size_t length) {
  return BestCrc32Kernel().update(state, data, length);
}

bool Crc32CopyAndUpdate(uint32_t& state, uint8_t* destination, const uint8_t* source,
                        size_t length) {
  return BestCrc32Kernel().copy_and_update(state, destination, source, length);
}

uint32_t Crc32UpdateMasked(uint32_t state, const uint8_t* data, size_t length,
                           const Crc32Mask& mask) {
  return BestCrc32Kernel().update_masked(state, data, length, mask);
}

}  // namespace uroce::transport
