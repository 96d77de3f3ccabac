#include "dpdk_nic/switch/keyed_hash.h"

#include "dpdk_nic/base/random_seed.h"

namespace uroce::nic {

KeyedHash::KeyedHash() : key_(NewRandomSeedOrThrow()) {
  for (uint64_t& part : key_) part |= 1;  // so that no factor is zero
}

}  // namespace uroce::nic
