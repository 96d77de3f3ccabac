#include "dpdk_nic/switch/keyed_hash.h"

#include <bit>

#include "dpdk_nic/base/random_seed.h"

namespace uroce::nic {
namespace {

// The four words of the state of SipHash.
struct SipState {
  explicit SipState(const KeyedHash::Key& key)
      : v0(key[0] ^ 0x736f'6d65'7073'6575),  // "somepseudorandomlygeneratedbytes"
        v1(key[1] ^ 0x646f'7261'6e64'6f6d),
        v2(key[0] ^ 0x6c79'6765'6e65'7261),
        v3(key[1] ^ 0x7465'6462'7974'6573) {}

  void Round() {
    v0 += v1;
    v2 += v3;
    v1 = std::rotl(v1, 13) ^ v0;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 = std::rotl(v0, 32);
    v2 += v1;
    v0 += v3;
    v1 = std::rotl(v1, 17) ^ v2;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 = std::rotl(v2, 32);
  }
  void Absorb(uint64_t word) {
    v3 ^= word;
    for (int round = 0; round < 2; ++round) Round();
    v0 ^= word;
  }
  uint64_t Finish() {
    v2 ^= 0xff;
    for (int round = 0; round < 4; ++round) Round();
    return v0 ^ v1 ^ v2 ^ v3;
  }

  uint64_t v0, v1, v2, v3;
};

KeyedHash::Key NewKey() {
  const RandomSeed seed = NewRandomSeedOrThrow();
  return {seed[0], seed[1]};
}

}  // namespace

KeyedHash::KeyedHash() : key_(NewKey()) {}

template <size_t kWords>
uint64_t KeyedHash::Hash(const std::array<uint64_t, kWords>& words) const {
  SipState state(key_);
  for (const uint64_t word : words) state.Absorb(word);
  state.Absorb(uint64_t{kWords * sizeof(uint64_t)} << 56);  // the length ends the message
  return state.Finish();
}

template uint64_t KeyedHash::Hash(const std::array<uint64_t, 1>& words) const;
template uint64_t KeyedHash::Hash(const std::array<uint64_t, 2>& words) const;
template uint64_t KeyedHash::Hash(const std::array<uint64_t, 3>& words) const;

}  // namespace uroce::nic
