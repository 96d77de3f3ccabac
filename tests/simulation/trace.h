#pragma once

#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>

#include "transport/time.h"

namespace uroce::transport::simulation {

// Hashes all events of a run: two runs of a seed that differ anywhere differ in the hash. Also
// prints the events if it gets a file.
class Trace {
 public:
  using Field = std::pair<const char*, uint64_t>;

  // `out` may be nullptr: only hash.
  explicit Trace(std::FILE* out) : out_(out) {}

  void OnFrame(Time now, const char* what, int host, std::span<const uint8_t> frame);
  void OnEvent(Time now, const char* what, std::initializer_list<Field> fields);

  uint64_t hash() const { return hash_; }

 private:
  void Mix(uint64_t word);
  void Mix(std::span<const uint8_t> bytes);

  std::FILE* out_;
  uint64_t hash_ = 0x243f6a8885a308d3;
};

}  // namespace uroce::transport::simulation
