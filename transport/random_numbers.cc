#include "transport/random_numbers.h"

#include <bit>

namespace uroce::transport {
namespace {

struct SipState {
  uint64_t v0, v1, v2, v3;

  void Round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
  void Absorb(uint64_t word) {
    v3 ^= word;
    Round();
    Round();
    v0 ^= word;
  }
};

}  // namespace

// Hashes a message of eight bytes, the counter. The top byte of the last word is the message's
// length.
uint64_t RandomNumbers::Next() {
  SipState state{seed_[0] ^ 0x736f'6d65'7073'6575, seed_[1] ^ 0x646f'7261'6e64'6f6d,
                 seed_[0] ^ 0x6c79'6765'6e65'7261, seed_[1] ^ 0x7465'6462'7974'6573};
  state.Absorb(next_++);
  state.Absorb(uint64_t{8} << 56);
  state.v2 ^= 0xff;
  for (int i = 0; i < 4; ++i) state.Round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace uroce::transport
