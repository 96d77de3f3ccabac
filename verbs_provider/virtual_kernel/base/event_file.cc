#include "verbs_provider/virtual_kernel/base/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "verbs_provider/virtual_kernel/base/errno_guard.h"
#include "verbs_provider/virtual_kernel/base/event_files.h"
#include "verbs_provider/virtual_kernel/base/event_pipe.h"
#include "verbs_provider/virtual_kernel/base/real_libc.h"

namespace uroce::verbs::virtual_kernel {
namespace {

// The largest size for an unprivileged process (fs.pipe-max-size); a new pipe has 64 KiB.
constexpr int kLargestPipeBytes = 1 << 20;

}  // namespace

EventFile::EventFile(PrivateFd read_end, PrivateFd write_end, uint32_t record_bytes)
    : OpenFile(FileKind::kEventFile),
      record_bytes_(record_bytes),
      read_end_(std::move(read_end)),
      write_end_(std::move(write_end)) {}

int EventFile::Open(uint32_t record_bytes) {
  auto pipe = OpenEventPipe(O_CLOEXEC);
  if (!pipe) return -1;
  const int fd = pipe->reader;
  if (!FdTable::InRange(fd)) {
    real::close(fd);
    errno = EMFILE;
    return -1;
  }
  FdTable::Instance().Insert(
      fd, std::make_shared<EventFile>(std::move(pipe->read_end), std::move(pipe->write_end),
                                      record_bytes));
  return fd;
}

int EventFile::Post(const void* record) {
  const ErrnoGuard guard;
  const nic::MutexLock lock(mutex_);
  // A write of at most PIPE_BUF bytes is atomic: all or EAGAIN.
  if (real::write(write_end_.get(), record, record_bytes_) == record_bytes_) return 0;
  real::fcntl(write_end_.get(), F_SETPIPE_SZ, kLargestPipeBytes);
  return real::write(write_end_.get(), record, record_bytes_) == record_bytes_ ? 0 : ENOBUFS;
}

// Many records a call: a program that reads no events may destroy thousands of queue pairs.
uint32_t EventFile::Purge(uint64_t element) {
  const ErrnoGuard guard;
  const nic::MutexLock lock(mutex_);
  std::vector<std::byte> kept;
  uint32_t dropped = 0;
  std::array<std::byte, PIPE_BUF> records;
  const size_t whole_bytes = records.size() / record_bytes_ * record_bytes_;
  ssize_t bytes = 0;
  while ((bytes = real::read(read_end_.get(), records.data(), whole_bytes)) > 0) {
    for (ssize_t at = 0; at < bytes; at += record_bytes_) {
      const std::byte* const record = &records[static_cast<size_t>(at)];
      if (std::memcmp(record, &element, sizeof(element)) == 0) {
        ++dropped;
      } else {
        kept.insert(kept.end(), record, record + record_bytes_);
      }
    }
  }
  for (size_t at = 0; at < kept.size(); at += whole_bytes) {
    // Cannot fail: the records came out of this pipe, and there is no other writer now.
    real::write(write_end_.get(), &kept[at], std::min(kept.size() - at, whole_bytes));
  }
  return dropped;
}

}  // namespace uroce::verbs::virtual_kernel

using uroce::verbs::virtual_kernel::EventFile;
using uroce::verbs::virtual_kernel::FdTable;
using uroce::verbs::virtual_kernel::FileKind;

int uroce_event_file_open(uint32_t record_bytes) {
  if (record_bytes < sizeof(uint64_t) || record_bytes > EventFile::kMaxRecordBytes) {
    errno = EINVAL;
    return -1;
  }
  return EventFile::Open(record_bytes);
}

int uroce_event_post(int fd, const void* record) {
  const auto file = FdTable::Instance().Find<EventFile>(fd);
  return file == nullptr ? EBADF : file->Post(record);
}

uint64_t uroce_uverbs_file(int fd) {
  if (FdTable::KindOf(fd) != FileKind::kUverbs) return 0;
  return reinterpret_cast<uintptr_t>(FdTable::Instance().FindAny(fd).get());
}

uint32_t uroce_event_purge(int fd, uint64_t element) {
  const auto file = FdTable::Instance().Find<EventFile>(fd);
  return file == nullptr ? 0 : file->Purge(element);
}
