#pragma once

#include <cstddef>

namespace uroce::verbs {

enum class PinFor { kReading, kWriting };

// Checks that every page of [address, address + length) is mapped and permits the access it is
// pinned for, and populates it: a program can observe no more of the kernel's pinning. An empty
// range stands for the page that it points into unless it starts on a page boundary, as in
// ib_umem_get().
//
// Returns 0, or what the kernel gives for ibv_reg_mr: EFAULT when a page is not mapped or does not
// permit the access, EINVAL when the range wraps around or has no page at all, ENOMEM when memory
// ran out.
int PinPages(const void* address, size_t length, PinFor purpose);

// Two ways to do it for whole pages [first, first + bytes). The kernel populates in one call from
// 5.14 on; before, every page is touched. Both return 0, EFAULT or ENOMEM; PopulatePages also
// returns EOPNOTSUPP when the kernel is older.
int PopulatePages(void* first, size_t bytes, PinFor purpose);
int TouchPages(void* first, size_t bytes, PinFor purpose);

}  // namespace uroce::verbs
