#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "transport/ids.h"

namespace uroce::nic {

// Hashes of numbers that processes choose, under a key that they do not know, so that no process
// can fill a bucket on purpose.
class KeyedHash {
 public:
  // With a key of its own.
  KeyedHash();

  size_t operator()(const transport::Gid& gid) const {
    uint64_t high, low;
    std::memcpy(&high, gid.bytes.data(), sizeof high);
    std::memcpy(&low, gid.bytes.data() + sizeof high, sizeof low);
    return Mix(Mix(high ^ key_[0], low ^ key_[1]), key_[2]);
  }
  size_t operator()(uint64_t value) const { return Mix(Mix(value ^ key_[0], key_[1]), key_[2]); }
  size_t operator()(const transport::Gid& gid, transport::Qpn qpn) const {
    return Mix((*this)(gid) ^ qpn.value, key_[3]);
  }

 private:
  // Both halves of the product of all 64 bits: every bit of the result depends on every bit before.
  static uint64_t Mix(uint64_t a, uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }

  std::array<uint64_t, 4> key_;
};

}  // namespace uroce::nic
