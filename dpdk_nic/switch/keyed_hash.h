#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "transport/ids.h"

namespace uroce::nic {

// Hashes of numbers that processes choose, under a key that they do not know, so that no process
// can fill a bucket on purpose: SipHash-2-4 (Aumasson and Bernstein, 2012).
class KeyedHash {
 public:
  using Key = std::array<uint64_t, 2>;

  // Draws a random key.
  KeyedHash();
  explicit KeyedHash(const Key& key) : key_(key) {}

  // Hashes the 8 bytes of the number, the lowest first.
  size_t operator()(uint64_t value) const { return Hash(std::array{value}); }
  // Hashes its 16 bytes.
  size_t operator()(const transport::Gid& gid) const { return Hash(WordsOf(gid)); }
  size_t operator()(const transport::Gid& gid, transport::Qpn qpn) const {
    const auto words = WordsOf(gid);
    return Hash(std::array{words[0], words[1], uint64_t{qpn.value}});
  }

 private:
  static std::array<uint64_t, 2> WordsOf(const transport::Gid& gid) {
    std::array<uint64_t, 2> words;
    std::memcpy(words.data(), gid.bytes.data(), sizeof words);
    return words;
  }

  template <size_t kWords>
  uint64_t Hash(const std::array<uint64_t, kWords>& words) const;

  Key key_;
};

}  // namespace uroce::nic
