#include "dpdk_nic/engine/published_state.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "dpdk_nic/base/memory_file.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010  // Linux 5.1, uapi/linux/fcntl.h
#endif

namespace uroce::nic {
namespace {

using transport::EndpointState;

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

}  // namespace

std::unique_ptr<PublishedState> PublishedState::Create() {
  UniqueFd fd = MakeMemoryFile("uroce-state", sizeof(EndpointState));
  if (!fd) return nullptr;
  void* memory =
      mmap(nullptr, sizeof(EndpointState), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return nullptr;
  // From now on the memory can be mapped for reading only; this mapping stays writable.
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    const int error = errno;
    munmap(memory, sizeof(EndpointState));
    errno = error;
    return nullptr;
  }
  return std::unique_ptr<PublishedState>(
      new PublishedState(std::move(fd), static_cast<EndpointState*>(memory)));
}

PublishedState::~PublishedState() { munmap(endpoint_, sizeof(EndpointState)); }

void PublishedState::AbandonAfterFork() {
  // A private mapping may be written to whatever the seals say.
  mmap(endpoint_, sizeof(EndpointState), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd_.get(),
       0);
}

std::unique_ptr<PublishedStateView> PublishedStateView::Open(UniqueFd fd) {
  struct stat status;
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || fstat(fd.get(), &status) != 0) return nullptr;
  if ((seals & kSeals) != kSeals || status.st_size != static_cast<off_t>(sizeof(EndpointState))) {
    errno = EPROTO;
    return nullptr;
  }
  void* memory = mmap(nullptr, sizeof(EndpointState), PROT_READ, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return nullptr;
  return std::unique_ptr<PublishedStateView>(
      new PublishedStateView(std::move(fd), static_cast<const EndpointState*>(memory)));
}

std::vector<transport::QueuePairRecord> PublishedStateView::QueuePairs() const {
  constexpr size_t kFirst = offsetof(EndpointState, queue_pairs);
  constexpr size_t kRecordBytes = sizeof(transport::QueuePairRecord);
  const auto position_of = [](size_t i) { return static_cast<off_t>(kFirst + i * kRecordBytes); };
  std::vector<transport::QueuePairRecord> found;
  size_t next = 0;
  while (next < endpoint_->queue_pairs.size()) {
    const off_t data = lseek(fd_.get(), position_of(next), SEEK_DATA);
    if (data < 0) break;  // nothing was written from here on
    next = std::max(next, (static_cast<size_t>(data) - kFirst) / kRecordBytes);
    const off_t hole = lseek(fd_.get(), data, SEEK_HOLE);
    for (; next < endpoint_->queue_pairs.size() && position_of(next) < hole; ++next) {
      // pread() instead of the mapping: the last record may reach into the hole.
      transport::QueuePairRecord record;
      const ssize_t bytes = pread(fd_.get(), &record, kRecordBytes, position_of(next));
      if (bytes == static_cast<ssize_t>(kRecordBytes) && record.qpn.value != 0) {
        found.push_back(record);
      }
    }
  }
  return found;
}

PublishedStateView::~PublishedStateView() {
  munmap(const_cast<EndpointState*>(endpoint_), sizeof(EndpointState));
}

}  // namespace uroce::nic
