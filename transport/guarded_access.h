#pragma once

#include <cstddef>
#include <cstdint>

// Access to the application's memory. It may be gone: unmapped, protected, a mapping of a file that
// was truncated. Then the processor raises SIGSEGV or SIGBUS, and the handler of these signals has
// the thread go on where GuardedResumeAddress says; the access reports failure.
//
// This is how kernels copy from and to user space. The instructions that may fault are listed in a
// table, with the place to go on at; nothing is executed to prepare for a fault.
namespace uroce::transport {

// Copies `bytes` bytes; the ranges do not overlap. False if either range could not be accessed; a
// part may have been written then.
[[nodiscard]] bool GuardedCopy(void* to, const void* from, size_t bytes);

// Stores one byte after everything that the thread stored before.
[[nodiscard]] bool GuardedStore(uint8_t* to, uint8_t value);

// Stores a naturally aligned number at once, after everything that the thread stored before.
[[nodiscard]] bool GuardedStore(uint64_t* to, uint64_t value);

// Atomic operations on a naturally aligned number. `*original` is what was there before.
[[nodiscard]] bool GuardedFetchAdd(uint64_t* target, uint64_t addend, uint64_t* original);
[[nodiscard]] bool GuardedCompareSwap(uint64_t* target, uint64_t compare, uint64_t swap,
                                      uint64_t* original);

// Where a thread goes on that faulted at the instruction at `pc`, as if the access had returned
// false; 0 if that is no guarded instruction. Async-signal-safe.
uintptr_t GuardedResumeAddress(uintptr_t pc);

}  // namespace uroce::transport

// Assembler text whose instructions may fault, for an `asm volatile goto` with a label `gone` to go
// to then. The flag '?' puts the table's entry into the group of the function, to be dropped with
// it.
#define UROCE_GUARDED(instructions)                   \
  "771:\n\t" instructions                             \
  "\n772:\n\t"                                        \
  ".pushsection uroce_guarded, \"a?\", @progbits\n\t" \
  ".balign 4\n\t"                                     \
  ".long 771b - ., 772b - ., %l[gone] - .\n\t"        \
  ".popsection"
