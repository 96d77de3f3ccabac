#include "dpdk_nic/engine/published_state.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "dpdk_nic/base/memory_file.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010  // Linux 5.1, uapi/linux/fcntl.h
#endif

namespace uroce::nic {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

}  // namespace

std::unique_ptr<PublishedState> PublishedState::Create() {
  UniqueFd fd = MakeMemoryFile("uroce-state", sizeof(ProcessState));
  if (!fd) return nullptr;
  void* memory =
      mmap(nullptr, sizeof(ProcessState), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return nullptr;
  // From now on the memory can be mapped for reading only; this mapping stays writable.
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    const int error = errno;
    munmap(memory, sizeof(ProcessState));
    errno = error;
    return nullptr;
  }
  return std::unique_ptr<PublishedState>(
      new PublishedState(std::move(fd), static_cast<ProcessState*>(memory)));
}

PublishedState::~PublishedState() { munmap(state_, sizeof(ProcessState)); }

void PublishedState::AbandonAfterFork() {
  // A private mapping may be written to whatever the seals say.
  mmap(state_, sizeof(ProcessState), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd_.get(), 0);
}

std::unique_ptr<PublishedStateView> PublishedStateView::Open(UniqueFd fd) {
  struct stat status;
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || fstat(fd.get(), &status) != 0) return nullptr;
  if ((seals & kSeals) != kSeals || status.st_size != static_cast<off_t>(sizeof(ProcessState))) {
    errno = EPROTO;
    return nullptr;
  }
  void* memory = mmap(nullptr, sizeof(ProcessState), PROT_READ, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return nullptr;
  return std::unique_ptr<PublishedStateView>(
      new PublishedStateView(std::move(fd), static_cast<const ProcessState*>(memory)));
}

std::vector<transport::QueuePairRecord> PublishedStateView::QueuePairs() const {
  constexpr size_t kFirst =
      offsetof(ProcessState, endpoint) + offsetof(transport::EndpointState, queue_pairs);
  const size_t count = state_->endpoint.queue_pairs.size();
  constexpr size_t kRecordBytes = sizeof(transport::QueuePairRecord);
  const auto position_of = [](size_t i) { return static_cast<off_t>(kFirst + i * kRecordBytes); };
  std::vector<transport::QueuePairRecord> found;
  size_t next = 0;
  while (next < count) {
    const off_t data = lseek(fd_.get(), position_of(next), SEEK_DATA);
    if (data < 0) break;  // nothing was written from here on
    next = std::max(next, (static_cast<size_t>(data) - kFirst) / kRecordBytes);
    const off_t hole = lseek(fd_.get(), data, SEEK_HOLE);
    for (; next < count && position_of(next) < hole; ++next) {
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

PublishedStateView::Snapshot PublishedStateView::Read() const {
  // A process that destroys queue pairs without an end, or that lies, is read as it is.
  constexpr int kMaxAttempts = 16;
  const std::atomic_ref moves(const_cast<uint64_t&>(state_->endpoint.moves));
  Snapshot snapshot;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const uint64_t before = moves.load();
    snapshot = {.counters = state_->endpoint.counters,
                .connection_manager = state_->endpoint.connection_manager,
                .peers = state_->endpoint.peers,
                .port = state_->port,
                .queue_pairs = QueuePairs()};
    if (before % 2 == 0 && moves.load() == before) break;
  }
  for (const transport::QueuePairRecord& record : snapshot.queue_pairs) {
    snapshot.counters += record.counters;
  }
  return snapshot;
}

PublishedStateView::~PublishedStateView() {
  munmap(const_cast<ProcessState*>(state_), sizeof(ProcessState));
}

}  // namespace uroce::nic
