#pragma once

#include <cstdint>

namespace uroce::transport {

// The accesses that a memory region, a memory window or a queue pair permits. The bits are those of
// enum ibv_access_flags.
class AccessFlags {
 public:
  static constexpr uint32_t kLocalWrite = 1 << 0;
  static constexpr uint32_t kRemoteWrite = 1 << 1;
  static constexpr uint32_t kRemoteRead = 1 << 2;
  static constexpr uint32_t kRemoteAtomic = 1 << 3;
  static constexpr uint32_t kWindowBind = 1 << 4;
  static constexpr uint32_t kZeroBased = 1 << 5;
  static constexpr uint32_t kFlushGlobal = 1 << 8;

  constexpr AccessFlags() = default;
  constexpr explicit AccessFlags(uint32_t bits) : bits_(bits) {}

  constexpr uint32_t bits() const { return bits_; }
  constexpr bool Allows(uint32_t wanted) const { return (bits_ & wanted) == wanted; }
  constexpr bool operator==(const AccessFlags&) const = default;

 private:
  uint32_t bits_ = 0;
};

}  // namespace uroce::transport
