#include "dpdk_nic/switch/keyed_hash.h"

#include <random>

namespace uroce::nic {

KeyedHash::KeyedHash() {
  std::random_device random;  // the kernel's
  for (uint64_t& part : key_) {
    // Odd, so that no factor is zero.
    part = (uint64_t{random()} << 32 | random()) | 1;
  }
}

}  // namespace uroce::nic
