#include "dpdk_nic/port/ring/ring_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "dpdk_nic/base/memory_file.h"

namespace uroce::nic {
namespace {

constexpr size_t kPageBytes = 4'096;
constexpr size_t kRingBytes = kPageBytes + kSlots * kSlotBytes;  // the control page, then the slots
constexpr size_t kMemoryBytes = 2 * kRingBytes;
static_assert(sizeof(RingControl) <= kPageBytes);
static_assert(kRingBytes % kPageBytes == 0);

constexpr off_t kStatBlockBytes = 512;  // the unit of st_blocks, see stat(3)
constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;
// Linux 5.1; existing mappings stay writable.
constexpr int kHoleSeals = F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

// MADV_POPULATE_WRITE of madvise(), since Linux 5.14; glibc names it since 2.35.
constexpr int kMadvPopulateWrite = 23;

// Maps the pages, which are allocated already, so that no frame pays for it later. Kernels before
// 5.14 map them at the first touch.
bool Populate(uint8_t* base) {
  return madvise(base, kMemoryBytes, kMadvPopulateWrite) == 0 || errno == EINVAL;
}

}  // namespace

std::unique_ptr<RingMemory> RingMemory::Create() {
  UniqueFd fd(memfd_create("uroce-link", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return nullptr;
  const int error =
      GrowMemoryFile(kMemoryBytes, [&] { return posix_fallocate(fd.get(), 0, kMemoryBytes); });
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  if (fcntl(fd.get(), F_ADD_SEALS, kSizeSeals) != 0) return nullptr;
  std::unique_ptr<RingMemory> memory = Map(fd.get());
  if (memory == nullptr || !Populate(memory->base_)) return nullptr;
  memory->fd_ = std::move(fd);
  return memory;
}

std::unique_ptr<RingMemory> RingMemory::Open(UniqueFd fd) {
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0) return nullptr;
  if ((seals & kSizeSeals) != kSizeSeals) {
    errno = EPROTO;
    return nullptr;
  }
  std::unique_ptr<RingMemory> memory = Map(fd.get());
  if (memory == nullptr || !SealAgainstHoles(fd.get())) return nullptr;
  // Checked once nothing of the memory can change any more, and before a page is touched: a hole
  // would be filled at our expense.
  if (!IsWhole(fd.get())) {
    errno = EPROTO;
    return nullptr;
  }
  if (!Populate(memory->base_)) return nullptr;
  return memory;
}

std::unique_ptr<RingMemory> RingMemory::Map(int fd) {
  void* base = mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return nullptr;
  return std::unique_ptr<RingMemory>(new RingMemory(static_cast<uint8_t*>(base)));
}

bool RingMemory::SealAgainstHoles(int fd) { return fcntl(fd, F_ADD_SEALS, kHoleSeals) == 0; }

bool RingMemory::IsSealed() const {
  const int seals = fcntl(fd_.get(), F_GET_SEALS);
  return seals >= 0 && (seals & kHoleSeals) == kHoleSeals;
}

bool RingMemory::IsWhole(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 && status.st_size == static_cast<off_t>(kMemoryBytes) &&
         status.st_blocks * kStatBlockBytes >= static_cast<off_t>(kMemoryBytes);
}

RingMemory::~RingMemory() { munmap(base_, kMemoryBytes); }

Ring RingMemory::ring(int side) const {
  uint8_t* base = base_ + (side == 0 ? 0 : kRingBytes);
  return {reinterpret_cast<RingControl*>(base), base + kPageBytes};
}

}  // namespace uroce::nic
