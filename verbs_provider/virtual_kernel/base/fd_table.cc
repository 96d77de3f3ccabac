#include "verbs_provider/virtual_kernel/base/fd_table.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "dpdk_nic/base/cancellation_guard.h"
#include "verbs_provider/virtual_kernel/base/errno_guard.h"
#include "verbs_provider/virtual_kernel/base/real_libc.h"

namespace uroce::verbs::virtual_kernel {
namespace {

// Above the descriptors of a program that numbers its own or uses select() sparingly, below the
// customary limit of 1024.
constexpr int kLowestPrivateFd = 700;

}  // namespace

FdTable& FdTable::Instance() {
  static auto* table = new FdTable;
  return *table;
}

FdTable::FdTable() : owner_pid_(getpid()) {
  pthread_atfork([]() UROCE_ACQUIRE(Instance().mutex_) { Instance().mutex_.lock(); },
                 []() UROCE_RELEASE(Instance().mutex_) { Instance().mutex_.unlock(); },
                 []() UROCE_RELEASE(Instance().mutex_) {
                   Instance().owner_pid_ = getpid();
                   Instance().mutex_.unlock();
                 });
}

bool FdTable::InRange(int fd) {
  if (fd < kMaxFds) return true;
  errno = EMFILE;
  return false;
}

void FdTable::Insert(int fd, std::shared_ptr<OpenFile> file) {
  const FileKind kind = file->kind();
  std::shared_ptr<OpenFile> replaced;  // destroyed after the lock is released
  const nic::MutexLock lock(mutex_);
  replaced = std::exchange(files_[fd], std::move(file));
  if (replaced == nullptr) tracked_.fetch_add(1, std::memory_order_release);
  kinds_[fd].store(static_cast<uint8_t>(kind), std::memory_order_release);
}

std::shared_ptr<OpenFile> FdTable::FindAny(int fd) const {
  if (KindOf(fd) == FileKind::kNone) return nullptr;
  const nic::MutexLock lock(mutex_);
  const auto found = files_.find(fd);
  return found == files_.end() ? nullptr : found->second;
}

void FdTable::Remove(int fd) {
  std::shared_ptr<OpenFile> removed;
  {
    const nic::MutexLock lock(mutex_);
    const auto found = files_.find(fd);
    if (found == files_.end()) return;
    removed = std::move(found->second);
    files_.erase(found);
    kinds_[fd].store(static_cast<uint8_t>(FileKind::kNone), std::memory_order_release);
    tracked_.fetch_sub(1, std::memory_order_release);
  }
  const ErrnoGuard guard;
  const nic::CancellationGuard cancellation;
  removed.reset();  // may close private descriptors, which come back here
}

std::vector<int> FdTable::TrackedIn(unsigned int first, unsigned int last) const {
  std::vector<int> found;
  const nic::MutexLock lock(mutex_);
  for (const auto& [fd, file] : files_) {
    if (static_cast<unsigned int>(fd) >= first && static_cast<unsigned int>(fd) <= last) {
      found.push_back(fd);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

bool FdTable::InForeignProcess() const { return getpid() != owner_pid_; }

PrivateFd::PrivateFd(int fd) {
  if (fd < 0) return;
  const ErrnoGuard guard;
  const nic::CancellationGuard cancellation;
  const int moved = real::fcntl(fd, F_DUPFD_CLOEXEC, kLowestPrivateFd);
  if (moved >= 0) real::close(fd);
  fd_ = moved >= 0 ? moved : fd;
  // A descriptor beyond the table's range is not protected from the application.
  if (fd_ < FdTable::kMaxFds) {
    FdTable::Instance().Insert(fd_, std::make_shared<OpenFile>(FileKind::kPrivate));
  }
}

PrivateFd& PrivateFd::operator=(PrivateFd&& other) noexcept {
  if (this != &other) {
    Reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

PrivateFd::~PrivateFd() { Reset(); }

void PrivateFd::Reset() {
  if (fd_ < 0) return;
  const nic::CancellationGuard cancellation;
  FdTable::Instance().Remove(fd_);
  real::close(fd_);
  fd_ = -1;
}

}  // namespace uroce::verbs::virtual_kernel
