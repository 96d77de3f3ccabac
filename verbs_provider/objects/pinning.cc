#include "verbs_provider/objects/pinning.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <ctime>

namespace uroce::verbs {
namespace {

// Linux 5.14; older C libraries do not have the names.
constexpr int kPopulateRead = 22;
constexpr int kPopulateWrite = 23;

size_t PageBytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// Whether any page of the range is not mapped. madvise returns ENOMEM for that, as well as when
// memory ran out.
bool HasHole(uint8_t* first, size_t bytes) {
  constexpr size_t kPagesAtOnce = 256;
  unsigned char residency[kPagesAtOnce];
  const size_t step = kPagesAtOnce * PageBytes();
  for (size_t at = 0; at < bytes; at += step) {
    const size_t chunk = bytes - at < step ? bytes - at : step;
    if (mincore(first + at, chunk, residency) != 0) return true;
  }
  return false;
}

// Lets the kernel access the first word of a page for us, so that a page that cannot be accessed is
// an error and not a signal. FUTEX_WAIT with a timeout of zero reads the word. FUTEX_WAKE_OP adds
// zero to it atomically, which takes a write fault and cannot undo what another thread writes.
int TouchPage(uint8_t* page, PinFor purpose) {
  long result = 0;
  if (purpose == PinFor::kWriting) {
    static uint32_t nobody_waits_here = 0;
    constexpr uint32_t kAddZero = FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0);
    result = syscall(SYS_futex, &nobody_waits_here, FUTEX_WAKE_OP_PRIVATE, 0, 0, page, kAddZero);
  } else {
    constexpr timespec kNoTime = {0, 0};
    result = syscall(SYS_futex, page, FUTEX_WAIT_PRIVATE, 0, &kNoTime, nullptr, 0);
  }
  if (result >= 0) return 0;
  return errno == EFAULT || errno == ENOMEM ? errno : 0;
}

}  // namespace

int PopulatePages(void* first, size_t bytes, PinFor purpose) {
  const int advice = purpose == PinFor::kWriting ? kPopulateWrite : kPopulateRead;
  int result = 0;
  do {
    result = madvise(first, bytes, advice);
  } while (result != 0 && (errno == EINTR || errno == EAGAIN));
  if (result == 0) return 0;

  switch (errno) {
    case ENOMEM:
      return HasHole(static_cast<uint8_t*>(first), bytes) ? EFAULT : ENOMEM;
    case EINVAL: {
      // Either the pages forbid it, or the kernel does not know the advice: ask about a page that
      // permits everything.
      alignas(64) static uint8_t known_good[64];
      const auto page = reinterpret_cast<uintptr_t>(known_good) & ~(PageBytes() - 1);
      return madvise(reinterpret_cast<void*>(page), PageBytes(), kPopulateRead) == 0 ? EFAULT
                                                                                     : EOPNOTSUPP;
    }
    default:
      return EFAULT;  // also a page of a file beyond its end, and poisoned memory
  }
}

int TouchPages(void* first, size_t bytes, PinFor purpose) {
  auto* const begin = static_cast<uint8_t*>(first);
  for (size_t at = 0; at < bytes; at += PageBytes()) {
    if (const int error = TouchPage(begin + at, purpose)) return error;
  }
  return 0;
}

int PinPages(const void* address, size_t length, PinFor purpose) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const uintptr_t page_mask = PageBytes() - 1;
  const uintptr_t end = begin + length;
  const uintptr_t rounded_end = (end + page_mask) & ~page_mask;
  if (end < begin || rounded_end < end) return EINVAL;
  const uintptr_t first = begin & ~page_mask;
  if (rounded_end == first) return EINVAL;

  auto* const pages = reinterpret_cast<void*>(first);
  const int error = PopulatePages(pages, rounded_end - first, purpose);
  return error == EOPNOTSUPP ? TouchPages(pages, rounded_end - first, purpose) : error;
}

}  // namespace uroce::verbs
