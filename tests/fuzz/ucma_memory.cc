#include "tests/fuzz/ucma_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "tests/fuzz/require.h"

namespace uroce::verbs::rdma_cm {

UcmaMemory::UcmaMemory() {
  void* guarded =
      mmap(nullptr, 3 * kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, /*offset=*/0);
  UROCE_REQUIRE(guarded != MAP_FAILED);
  bytes_ = static_cast<uint8_t*>(guarded) + kBytes;
  UROCE_REQUIRE(mprotect(bytes_, kBytes, PROT_READ | PROT_WRITE) == 0);
  Clear();
}

UcmaMemory::~UcmaMemory() { munmap(bytes_ - kBytes, 3 * kBytes); }

uint64_t UcmaMemory::PutLast(std::span<const uint8_t> bytes) {
  UROCE_REQUIRE(bytes.size() <= kBytes);
  std::copy(bytes.begin(), bytes.end(), bytes_ + kBytes - bytes.size());
  return end() - bytes.size();
}

bool UcmaMemory::IsClearBut(uint64_t address, size_t bytes) const {
  static const std::vector<uint8_t> clear(kBytes, kClear);
  const bool is_inside = address >= begin() && address < end();
  const size_t before = is_inside ? address - begin() : kBytes;
  const size_t behind = is_inside ? kBytes - before - std::min(bytes, kBytes - before) : 0;
  return std::memcmp(bytes_, clear.data(), before) == 0 &&
         std::memcmp(bytes_ + kBytes - behind, clear.data(), behind) == 0;
}

}  // namespace uroce::verbs::rdma_cm
