#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace uroce::verbs::rdma_cm {

// Memory of the application that a command names, between unmapped pages: one byte too many is
// EFAULT.
class UcmaMemory {
 public:
  static constexpr size_t kBytes = 4'096;

  UcmaMemory();
  ~UcmaMemory();
  UcmaMemory(const UcmaMemory&) = delete;
  UcmaMemory& operator=(const UcmaMemory&) = delete;

  uint64_t begin() const { return reinterpret_cast<uintptr_t>(bytes_); }
  uint64_t end() const { return begin() + kBytes; }
  std::span<uint8_t> bytes() const { return {bytes_, kBytes}; }
  bool Contains(uint64_t address, size_t bytes) const {
    return address >= begin() && address <= end() && bytes <= end() - address;
  }

  // Puts `bytes` at the very end. Returns their address.
  uint64_t PutLast(std::span<const uint8_t> bytes);
  // Fills the memory, so that IsClearBut() finds later writes.
  void Clear() { std::memset(bytes_, kClear, kBytes); }
  // Whether nothing outside the range was written.
  bool IsClearBut(uint64_t address, size_t bytes) const;

 private:
  static constexpr uint8_t kClear = 0xa5;

  uint8_t* bytes_;
};

}  // namespace uroce::verbs::rdma_cm
