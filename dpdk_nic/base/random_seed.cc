#include "dpdk_nic/base/random_seed.h"

#include <sys/random.h>

#include <cerrno>
#include <system_error>

namespace uroce::nic {

std::optional<RandomSeed> NewRandomSeed() {
  RandomSeed seed;
  ssize_t got;
  do {
    got = getrandom(seed.data(), sizeof seed, 0);  // up to 256 bytes never come in part
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof seed)) return std::nullopt;
  return seed;
}

RandomSeed NewRandomSeedOrThrow() {
  const auto seed = NewRandomSeed();
  if (!seed) throw std::system_error(errno, std::generic_category(), "getrandom");
  return *seed;
}

}  // namespace uroce::nic
