#include "transport/wire/crc32_kernels.h"

namespace uroce::transport {
const Crc32Kernel* PclmulCrc32Kernel() { return nullptr; }
}  // namespace uroce::transport
