#pragma once

#include <cstddef>
#include <cstdint>

// Access to the application's memory, which may be gone: unmapped, protected, a mapping of a file
// that was truncated. An access then raises SIGSEGV or SIGBUS; the signal handler resumes the
// thread where GuardedResumeAddress says, and the access reports failure.
//
// Kernels copy from and to user space in the same way: a table lists the instructions that may
// fault, with the place to resume. No instruction is executed to prepare for a fault.
namespace uroce::transport {

// Copies `bytes` bytes; the ranges do not overlap. False if either range could not be accessed; a
// part may have been written then.
[[nodiscard]] bool GuardedCopy(void* to, const void* from, size_t bytes);

// Stores one byte after everything that the thread stored before.
[[nodiscard]] bool GuardedStore(uint8_t* to, uint8_t value);

// Stores a naturally aligned number with one store, after everything that the thread stored before.
[[nodiscard]] bool GuardedStore(uint64_t* to, uint64_t value);

// Atomic operations on a naturally aligned number. `*original` is the old value.
[[nodiscard]] bool GuardedFetchAdd(uint64_t* target, uint64_t addend, uint64_t* original);
[[nodiscard]] bool GuardedCompareSwap(uint64_t* target, uint64_t compare, uint64_t swap,
                                      uint64_t* original);

// Copy what GuardedCopy and the others cannot access themselves, as memory that is still mapped but
// protected; false if nothing can. They make system calls.
struct ProtectedAccess {
  bool (*read)(void* to, const void* from, size_t bytes);
  bool (*write)(void* to, const void* from, size_t bytes);
};
// Any thread may use `access` from now on. Without a call an access to such memory fails.
void SetProtectedAccess(const ProtectedAccess& access);

// Where a thread that faulted at `pc` resumes, for the access to return false; 0 if no guarded
// instruction is at `pc`. Async-signal-safe.
uintptr_t GuardedResumeAddress(uintptr_t pc);

// For the address sanitizer, which does not see the instructions below. Nothing in other builds.
#if defined(__SANITIZE_ADDRESS__)
#define UROCE_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UROCE_ADDRESS_SANITIZER 1
#endif
#endif
#ifdef UROCE_ADDRESS_SANITIZER
extern "C" void __asan_loadN(uintptr_t address, size_t bytes);
extern "C" void __asan_storeN(uintptr_t address, size_t bytes);
// The sanitizer knows nothing of an address that no program can have; the access fails.
inline bool IsOfPrograms(const void* address) {
  return reinterpret_cast<uintptr_t>(address) >> 47 == 0;
}
inline void CheckGuardedRead(const void* from, size_t bytes) {
  if (IsOfPrograms(from)) __asan_loadN(reinterpret_cast<uintptr_t>(from), bytes);
}
inline void CheckGuardedWrite(void* to, size_t bytes) {
  if (IsOfPrograms(to)) __asan_storeN(reinterpret_cast<uintptr_t>(to), bytes);
}
#else
inline void CheckGuardedRead(const void* /*from*/, size_t /*bytes*/) {}
inline void CheckGuardedWrite(void* /*to*/, size_t /*bytes*/) {}
#endif

}  // namespace uroce::transport

// Assembler text whose instructions may fault, for an `asm volatile goto` whose label `gone` is the
// place to resume. The flag '?' puts the table entry into the section group of the function, so
// that the linker drops both together.
#define UROCE_GUARDED(instructions)                   \
  "771:\n\t" instructions                             \
  "\n772:\n\t"                                        \
  ".pushsection uroce_guarded, \"a?\", @progbits\n\t" \
  ".balign 4\n\t"                                     \
  ".long 771b - ., 772b - ., %l[gone] - .\n\t"        \
  ".popsection"
