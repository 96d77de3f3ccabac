#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "dpdk_nic/base/mutex.h"
#include "dpdk_nic/base/thread_annotations.h"
#include "verbs_provider/virtual_kernel/base/fd_table.h"

namespace uroce::verbs::virtual_kernel {

// The queue behind a completion channel or an asynchronous event descriptor: a pipe, so that poll,
// epoll, blocking, O_NONBLOCK and signals behave as with the kernel's own file, and every way to
// read (io_uring, raw system calls) gets genuine records. The application has a read end of its
// own, opened separately: O_NONBLOCK on it does not change ours, which never blocks.
class EventFile : public OpenFile {
 public:
  static constexpr uint32_t kMaxRecordBytes = 16;

  // Returns the application's descriptor, close-on-exec, already in the table; or -1 with errno.
  static int Open(uint32_t record_bytes);

  // 0, or ENOBUFS when the pipe is full and cannot grow any more (131072 records of 8 bytes).
  int Post(const void* record);

  // Drops the queued records that begin with `element`; returns their number. Takes all records out
  // and puts the others back: a reader may find the pipe empty meanwhile.
  uint32_t Purge(uint64_t element);

  EventFile(PrivateFd read_end, PrivateFd write_end, uint32_t record_bytes);

 private:
  const uint32_t record_bytes_;
  // Held for a post and a purge: a post must not take the room that a purge needs to put records
  // back.
  nic::Mutex mutex_;
  // Kept although the application reads from its own end: lets Purge read, and keeps a write from
  // raising SIGPIPE when the application's end is closed.
  PrivateFd read_end_ UROCE_GUARDED_BY(mutex_);
  PrivateFd write_end_ UROCE_GUARDED_BY(mutex_);
};

}  // namespace uroce::verbs::virtual_kernel
