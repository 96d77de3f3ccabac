#include "verbs_provider/virtual_kernel/rdma_cm/rdma_cm_file.h"

#include <fcntl.h>
#include <rdma/rdma_user_cm.h>
#include <sys/select.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "dpdk_nic/base/cancellation_guard.h"
#include "verbs_provider/rdma_cm/user_memory.h"
#include "verbs_provider/virtual_kernel/base/errno_guard.h"
#include "verbs_provider/virtual_kernel/base/event_pipe.h"
#include "verbs_provider/virtual_kernel/base/real_libc.h"

namespace uroce::verbs::virtual_kernel {
namespace {

constexpr int kLargestPipeBytes = 1 << 20;
constexpr int kChunkBytes = 64;
// Channels get descriptors from here on while there are any below FD_SETSIZE. select() of
// librspreload before release 63 looks for a socket by the descriptor of its channel, and confuses
// it with a lower descriptor of the application: if channels had descriptors as low as the
// kernel's, no accepted socket would ever become readable.
constexpr int kLowestChannelFd = 512;

int Fail(int error) {
  errno = error;
  return -1;
}

// The parts of a command that the virtual kernel needs before the provider runs it. The provider
// reads the command again, and checks it.
struct Outline {
  rdma_ucm_cmd_hdr header{};
  // For the two commands that the virtual kernel looks into.
  union {
    rdma_ucm_get_event get_event;
    rdma_ucm_migrate_id migrate_id;
  } body{};
  size_t bytes = 0;  // of the command behind the header

  template <class Command>
  bool Is(uint32_t number, const Command& command) const {
    return header.cmd == number && header.in >= sizeof command && header.in <= bytes;
  }
  bool WantsEvent() const {
    return Is(RDMA_USER_CM_CMD_GET_EVENT, body.get_event) &&
           header.out >= offsetof(rdma_ucm_event_resp, reserved);  // else ENOSPC at once
  }
  bool Migrates() const { return Is(RDMA_USER_CM_CMD_MIGRATE_ID, body.migrate_id); }
};

// Returns false if the memory is not mapped. A command without a whole header has an empty outline.
bool Read(const void* data, size_t bytes, Outline& outline) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  if (bytes < sizeof outline.header) return true;
  if (!rdma_cm::CopyFromUser(&outline.header, address, sizeof outline.header)) return false;
  outline.bytes = bytes - sizeof outline.header;
  size_t body_bytes = 0;
  if (outline.WantsEvent()) body_bytes = sizeof outline.body.get_event;
  if (outline.Migrates()) body_bytes = sizeof outline.body.migrate_id;
  return rdma_cm::CopyFromUser(&outline.body, address + sizeof outline.header, body_bytes);
}

// Returns a descriptor of the same file as `fd`, which is closed if another one is returned.
int MoveChannelFd(int fd, int flags) {
  const ErrnoGuard guard;
  const int command = (flags & O_CLOEXEC) != 0 ? F_DUPFD_CLOEXEC : F_DUPFD;
  const int moved = real::fcntl(fd, command, kLowestChannelFd);
  const bool fits = moved >= 0 && moved < FD_SETSIZE;
  if (moved >= 0) real::close(fits ? fd : moved);
  return fits ? moved : fd;
}

}  // namespace

int RdmaCmFile::Open(int flags, const RdmaCmFunctions& provider) {
  auto pipe = OpenEventPipe(flags & (O_CLOEXEC | O_NONBLOCK));
  if (!pipe) return -1;
  const int fd = MoveChannelFd(pipe->reader, flags);
  if (!FdTable::InRange(fd)) {
    real::close(fd);
    return Fail(EMFILE);
  }
  auto file =
      std::make_shared<RdmaCmFile>(std::move(pipe->read_end), std::move(pipe->write_end), provider);
  file->opened_ = PrivateFd(real::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!file->opened_) {
    real::close(fd);
    return Fail(EMFILE);
  }
  if (const int error = provider.open(file.get(), OnEvents, &file->channel_)) {
    real::close(fd);
    return Fail(error);
  }
  FdTable::Instance().Insert(fd, std::move(file));
  return fd;
}

RdmaCmFile::~RdmaCmFile() {
  if (channel_ != nullptr) provider_.close(channel_);
}

void RdmaCmFile::OnEvents(void* opened, int delta) {
  const ErrnoGuard guard;
  auto& file = *static_cast<RdmaCmFile*>(opened);
  char bytes[kChunkBytes] = {};
  for (; delta > 0; --delta) {
    if (real::write(file.write_end_.get(), bytes, 1) == 1) continue;
    real::fcntl(file.write_end_.get(), F_SETPIPE_SZ, kLargestPipeBytes);
    real::write(file.write_end_.get(), bytes, 1);
  }
  while (delta < 0) {
    // There are fewer when a thread has taken one and is about to find out that its event is gone.
    const ssize_t taken =
        real::read(file.read_end_.get(), bytes, std::min<size_t>(-delta, sizeof bytes));
    if (taken <= 0) return;
    delta += static_cast<int>(taken);
  }
}

ssize_t RdmaCmFile::Write(const void* data, size_t bytes) {
  Outline outline;
  if (!Read(data, bytes, outline)) return Fail(EFAULT);
  const bool wants_event = outline.WantsEvent();
  // Keeps the other file open until the command has been carried out.
  std::shared_ptr<RdmaCmFile> other;
  if (outline.Migrates()) {
    other = FdTable::Instance().Find<RdmaCmFile>(static_cast<int>(outline.body.migrate_id.fd));
  }
  while (true) {
    char token;
    if (wants_event && real::read(opened_.get(), &token, 1) < 0) return -1;
    const nic::CancellationGuard guard;
    const int error =
        provider_.write(channel_, other == nullptr ? nullptr : other->channel_, data, bytes);
    if (error == 0) return static_cast<ssize_t>(bytes);
    if (wants_event && error == EAGAIN) continue;  // another thread or a destroyed id took it
    return Fail(error);
  }
}

}  // namespace uroce::verbs::virtual_kernel
