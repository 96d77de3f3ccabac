#include "transport/guarded_access.h"

#include <algorithm>
#include <array>
#include <atomic>

namespace uroce::transport {
namespace {

// One run of guarded instructions; each number is relative to its own address.
struct Entry {
  int32_t begin;
  int32_t end;
  int32_t resume;
};

uintptr_t Resolve(const int32_t& relative) {
  return reinterpret_cast<uintptr_t>(&relative) + static_cast<uintptr_t>(intptr_t{relative});
}

const bool has_avx = [] {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx") != 0;
}();

// Each size class copies both ends, which may overlap; all loads come before the first store.

bool CopyByte(void* to, const void* from) {
  asm volatile goto(UROCE_GUARDED("movb (%1), %%al\n\t"
                                  "movb %%al, (%0)")
                    :
                    : "r"(to), "r"(from)
                    : "rax", "memory"
                    : gone);
  return true;
gone:
  return false;
}

#define UROCE_COPY_ENDS(name, move, register_of_front, register_of_back, size)                \
  bool name(void* to, const void* from, size_t bytes) {                                       \
    asm volatile goto(                                                                        \
        UROCE_GUARDED(move " (%1), %%" register_of_front "\n\t" move " -" #size               \
                           "(%1,%2), %%" register_of_back "\n\t" move " %%" register_of_front \
                           ", (%0)\n\t" move " %%" register_of_back ", -" #size "(%0,%2)")    \
        :                                                                                     \
        : "r"(to), "r"(from), "r"(bytes)                                                      \
        : "rax", "r11", "xmm0", "xmm1", "memory"                                              \
        : gone);                                                                              \
    return true;                                                                              \
  gone:                                                                                       \
    return false;                                                                             \
  }

UROCE_COPY_ENDS(Copy2To4, "movw", "ax", "r11w", 2)
UROCE_COPY_ENDS(Copy4To8, "movl", "eax", "r11d", 4)
UROCE_COPY_ENDS(Copy8To16, "movq", "rax", "r11", 8)
UROCE_COPY_ENDS(Copy16To32, "movups", "xmm0", "xmm1", 16)

bool Copy32To64(void* to, const void* from, size_t bytes) {
  asm volatile goto(UROCE_GUARDED("movups (%1), %%xmm0\n\t"
                                  "movups 16(%1), %%xmm1\n\t"
                                  "movups -32(%1,%2), %%xmm2\n\t"
                                  "movups -16(%1,%2), %%xmm3\n\t"
                                  "movups %%xmm0, (%0)\n\t"
                                  "movups %%xmm1, 16(%0)\n\t"
                                  "movups %%xmm2, -32(%0,%2)\n\t"
                                  "movups %%xmm3, -16(%0,%2)")
                    :
                    : "r"(to), "r"(from), "r"(bytes)
                    : "xmm0", "xmm1", "xmm2", "xmm3", "memory"
                    : gone);
  return true;
gone:
  return false;
}

// 64 bytes and more: whole blocks, then the last block again from the end.
bool CopyBlocksSse(void* to, const void* from, size_t bytes) {
  size_t at = 0;
  asm volatile goto(UROCE_GUARDED("1:\n\t"
                                  "movups (%2,%0), %%xmm0\n\t"
                                  "movups 16(%2,%0), %%xmm1\n\t"
                                  "movups 32(%2,%0), %%xmm2\n\t"
                                  "movups 48(%2,%0), %%xmm3\n\t"
                                  "movups %%xmm0, (%1,%0)\n\t"
                                  "movups %%xmm1, 16(%1,%0)\n\t"
                                  "movups %%xmm2, 32(%1,%0)\n\t"
                                  "movups %%xmm3, 48(%1,%0)\n\t"
                                  "addq $64, %0\n\t"
                                  "cmpq %3, %0\n\t"
                                  "jb 1b\n\t"
                                  "movups (%2,%3), %%xmm0\n\t"
                                  "movups 16(%2,%3), %%xmm1\n\t"
                                  "movups 32(%2,%3), %%xmm2\n\t"
                                  "movups 48(%2,%3), %%xmm3\n\t"
                                  "movups %%xmm0, (%1,%3)\n\t"
                                  "movups %%xmm1, 16(%1,%3)\n\t"
                                  "movups %%xmm2, 32(%1,%3)\n\t"
                                  "movups %%xmm3, 48(%1,%3)")
                    : "+&r"(at)
                    : "r"(to), "r"(from), "r"(bytes - 64)
                    : "xmm0", "xmm1", "xmm2", "xmm3", "memory", "cc"
                    : gone);
  return true;
gone:
  return false;
}

bool Copy64To128Avx(void* to, const void* from, size_t bytes) {
  asm volatile goto(UROCE_GUARDED("vmovups (%1), %%ymm0\n\t"
                                  "vmovups 32(%1), %%ymm1\n\t"
                                  "vmovups -64(%1,%2), %%ymm2\n\t"
                                  "vmovups -32(%1,%2), %%ymm3\n\t"
                                  "vmovups %%ymm0, (%0)\n\t"
                                  "vmovups %%ymm1, 32(%0)\n\t"
                                  "vmovups %%ymm2, -64(%0,%2)\n\t"
                                  "vmovups %%ymm3, -32(%0,%2)\n\t"
                                  "vzeroupper")
                    :
                    : "r"(to), "r"(from), "r"(bytes)
                    : "xmm0", "xmm1", "xmm2", "xmm3", "memory"
                    : gone);
  return true;
gone:
  asm volatile("vzeroupper");
  return false;
}

// 128 bytes and more: 32 bytes, blocks whose stores are aligned, then the last block.
bool CopyBlocksAvx(void* to, const void* from, size_t bytes) {
  size_t at = 32 - reinterpret_cast<uintptr_t>(to) % 32;
  asm volatile goto(UROCE_GUARDED("vmovups (%2), %%ymm0\n\t"
                                  "vmovups %%ymm0, (%1)\n\t"
                                  "jmp 2f\n\t"
                                  "1:\n\t"
                                  "vmovups (%2,%0), %%ymm0\n\t"
                                  "vmovups 32(%2,%0), %%ymm1\n\t"
                                  "vmovups 64(%2,%0), %%ymm2\n\t"
                                  "vmovups 96(%2,%0), %%ymm3\n\t"
                                  "vmovaps %%ymm0, (%1,%0)\n\t"
                                  "vmovaps %%ymm1, 32(%1,%0)\n\t"
                                  "vmovaps %%ymm2, 64(%1,%0)\n\t"
                                  "vmovaps %%ymm3, 96(%1,%0)\n\t"
                                  "subq $-128, %0\n\t"
                                  "2:\n\t"
                                  "cmpq %3, %0\n\t"
                                  "jb 1b\n\t"
                                  "vmovups (%2,%3), %%ymm0\n\t"
                                  "vmovups 32(%2,%3), %%ymm1\n\t"
                                  "vmovups 64(%2,%3), %%ymm2\n\t"
                                  "vmovups 96(%2,%3), %%ymm3\n\t"
                                  "vmovups %%ymm0, (%1,%3)\n\t"
                                  "vmovups %%ymm1, 32(%1,%3)\n\t"
                                  "vmovups %%ymm2, 64(%1,%3)\n\t"
                                  "vmovups %%ymm3, 96(%1,%3)\n\t"
                                  "vzeroupper")
                    : "+&r"(at)
                    : "r"(to), "r"(from), "r"(bytes - 128)
                    : "xmm0", "xmm1", "xmm2", "xmm3", "memory", "cc"
                    : gone);
  return true;
gone:
  asm volatile("vzeroupper");
  return false;
}

bool CopyOrFault(void* to, const void* from, size_t bytes) {
  if (bytes >= 64) {
    if (!has_avx) return CopyBlocksSse(to, from, bytes);
    return bytes >= 128 ? CopyBlocksAvx(to, from, bytes) : Copy64To128Avx(to, from, bytes);
  }
  if (bytes >= 32) return Copy32To64(to, from, bytes);
  if (bytes >= 16) return Copy16To32(to, from, bytes);
  if (bytes >= 8) return Copy8To16(to, from, bytes);
  if (bytes >= 4) return Copy4To8(to, from, bytes);
  if (bytes >= 2) return Copy2To4(to, from, bytes);
  return bytes == 0 || CopyByte(to, from);
}

std::atomic<bool (*)(void*, const void*, size_t)> protected_read = nullptr;
std::atomic<bool (*)(void*, const void*, size_t)> protected_write = nullptr;

// Either end may be protected. The copy stops over in memory of our own.
[[gnu::noinline, gnu::cold]] bool CopyProtected(void* to, const void* from, size_t bytes) {
  const auto read = protected_read.load(std::memory_order_acquire);
  const auto write = protected_write.load(std::memory_order_acquire);
  if (read == nullptr || write == nullptr) return false;
  std::array<uint8_t, 4'096> piece;
  for (size_t at = 0; at < bytes; at += piece.size()) {
    const size_t length = std::min(piece.size(), bytes - at);
    const uint8_t* const source = static_cast<const uint8_t*>(from) + at;
    uint8_t* const target = static_cast<uint8_t*>(to) + at;
    if (!CopyOrFault(piece.data(), source, length) && !read(piece.data(), source, length)) {
      return false;
    }
    if (!CopyOrFault(target, piece.data(), length) && !write(target, piece.data(), length)) {
      return false;
    }
  }
  return true;
}

}  // namespace

// The linker's names for the ends of the section.
extern "C" {
extern const Entry __start_uroce_guarded[] __attribute__((visibility("hidden")));
extern const Entry __stop_uroce_guarded[] __attribute__((visibility("hidden")));
}

uintptr_t GuardedResumeAddress(uintptr_t pc) {
  for (const Entry* entry = __start_uroce_guarded; entry != __stop_uroce_guarded; ++entry) {
    if (pc >= Resolve(entry->begin) && pc < Resolve(entry->end)) return Resolve(entry->resume);
  }
  return 0;
}

void SetProtectedAccess(const ProtectedAccess& access) {
  protected_read.store(access.read, std::memory_order_release);
  protected_write.store(access.write, std::memory_order_release);
}

bool GuardedCopy(void* to, const void* from, size_t bytes) {
  CheckGuardedRead(from, bytes);
  CheckGuardedWrite(to, bytes);
  return CopyOrFault(to, from, bytes) || CopyProtected(to, from, bytes);
}

// x86 makes stores visible in program order.
bool GuardedStore(uint8_t* to, uint8_t value) {
  CheckGuardedWrite(to, sizeof value);
  asm volatile goto(UROCE_GUARDED("movb %1, (%0)") : : "r"(to), "q"(value) : "memory" : gone);
  return true;
gone:
  return CopyProtected(to, &value, sizeof value);
}

bool GuardedStore(uint64_t* to, uint64_t value) {
  CheckGuardedWrite(to, sizeof value);
  asm volatile goto(UROCE_GUARDED("movq %1, (%0)") : : "r"(to), "r"(value) : "memory" : gone);
  return true;
gone:
  return CopyProtected(to, &value, sizeof value);
}

bool GuardedFetchAdd(uint64_t* target, uint64_t addend, uint64_t* original) {
  CheckGuardedWrite(target, sizeof *target);
  uint64_t number = addend;
  asm volatile goto(UROCE_GUARDED("lock xaddq %0, (%1)")
                    : "+r"(number)
                    : "r"(target)
                    : "memory", "cc"
                    : gone);
  *original = number;
  return true;
gone:
  // Atomic for the device, whose accesses take turns, not for the processors (IBV_ATOMIC_HCA).
  if (!CopyProtected(original, target, sizeof *target)) return false;
  number = *original + addend;
  return CopyProtected(target, &number, sizeof number);
}

bool GuardedCompareSwap(uint64_t* target, uint64_t compare, uint64_t swap, uint64_t* original) {
  CheckGuardedWrite(target, sizeof *target);
  uint64_t number = compare;
  asm volatile goto(UROCE_GUARDED("lock cmpxchgq %2, (%1)")
                    : "+a"(number)
                    : "r"(target), "r"(swap)
                    : "memory", "cc"
                    : gone);
  *original = number;
  return true;
gone:
  if (!CopyProtected(original, target, sizeof *target)) return false;
  return *original != compare || CopyProtected(target, &swap, sizeof swap);
}

}  // namespace uroce::transport
