#include "dpdk_nic/port/dpdk/eal/descriptor_shims.h"

#include <fcntl.h>
#include <linux/if_packet.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

// With `ld --wrap=close`, calls of close() in EAL and the drivers arrive at __wrap_close, and
// __real_close is the C library's. The linker prescribes the names.
extern "C" {
int __real_close(int fd);
int __real_open64(const char* path, int flags, mode_t mode);
int __real_openat64(int directory, const char* path, int flags, mode_t mode);
FILE* __real_fopen64(const char* path, const char* mode);
int __real_socket(int domain, int type, int protocol);
int __real_accept(int fd, sockaddr* address, socklen_t* address_bytes);
int __real_memfd_create(const char* name, unsigned flags);
int __real_pipe(int fds[2]);
int __real_epoll_create(int size);
int __real_epoll_create1(int flags);
int __real_timerfd_create(int clock, int flags);
int __real_eventfd(unsigned initial, int flags);
}

namespace uroce::nic {
namespace {

constexpr int kMaxTrackedFds = 65'536;
constexpr int kBitsPerWord = 64;
std::atomic<uint64_t> tracked[kMaxTrackedFds / kBitsPerWord];
std::atomic<bool> in_forked_child{false};
thread_local int last_packet_socket = -1;

int Track(int fd) {
  if (fd >= 0 && fd < kMaxTrackedFds) tracked[fd / kBitsPerWord] |= 1ull << (fd % kBitsPerWord);
  return fd;
}

void Untrack(int fd) {
  if (fd >= 0 && fd < kMaxTrackedFds) {
    tracked[fd / kBitsPerWord] &= ~(1ull << (fd % kBitsPerWord));
  }
}

int TrackCloseOnExec(int fd) {
  if (fd >= 0) fcntl(fd, F_SETFD, FD_CLOEXEC);
  return Track(fd);
}

void CloseAllInForkedChild() {
  in_forked_child = true;
  for (int word = 0; word < kMaxTrackedFds / kBitsPerWord; ++word) {
    const uint64_t bits = tracked[word].exchange(0);
    for (int bit = 0; bit < kBitsPerWord; ++bit) {
      if (bits >> bit & 1) __real_close(word * kBitsPerWord + bit);
    }
  }
}

__attribute__((constructor)) void RegisterForkHandler() {
  pthread_atfork(nullptr, nullptr, CloseAllInForkedChild);
}

}  // namespace

bool InForkedChild() { return in_forked_child.load(std::memory_order_relaxed); }

void TrackDescriptor(int fd) { Track(fd); }

int LastPacketSocket() { return last_packet_socket; }
int TakeLastPacketSocket() { return std::exchange(last_packet_socket, -1); }

}  // namespace uroce::nic

using uroce::nic::Track;
using uroce::nic::TrackCloseOnExec;

extern "C" {

int __wrap_close(int fd) {
  uroce::nic::Untrack(fd);
  return __real_close(fd);
}

int __wrap_open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return Track(__real_open64(path, flags | O_CLOEXEC, mode));
}

int __wrap_openat64(int directory, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return Track(__real_openat64(directory, path, flags | O_CLOEXEC, mode));
}

FILE* __wrap_fopen64(const char* path, const char* mode) {
  return __real_fopen64(path, (std::string(mode) + "e").c_str());
}

int __wrap_socket(int domain, int type, int protocol) {
  const int fd = Track(__real_socket(domain, type | SOCK_CLOEXEC, protocol));
  if (fd >= 0 && domain == AF_XDP) uroce::nic::last_packet_socket = fd;
  if (fd >= 0 && domain == AF_PACKET) {
    // Frames that this port sends are not for it. Kernels before 4.20 do not know the option and
    // return them, and the transport drops what is not addressed to it.
    const int on = 1;
    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on);
    uroce::nic::last_packet_socket = fd;
  }
  return fd;
}

int __wrap_accept(int fd, sockaddr* address, socklen_t* address_bytes) {
  return TrackCloseOnExec(__real_accept(fd, address, address_bytes));
}

int __wrap_memfd_create(const char* name, unsigned flags) {
  return Track(__real_memfd_create(name, flags | MFD_CLOEXEC));
}

int __wrap_pipe(int fds[2]) {
  const int result = __real_pipe(fds);
  if (result == 0) {
    TrackCloseOnExec(fds[0]);
    TrackCloseOnExec(fds[1]);
  }
  return result;
}

int __wrap_epoll_create(int size) { return TrackCloseOnExec(__real_epoll_create(size)); }

int __wrap_epoll_create1(int flags) { return Track(__real_epoll_create1(flags | EPOLL_CLOEXEC)); }

int __wrap_timerfd_create(int clock, int flags) {
  return Track(__real_timerfd_create(clock, flags | TFD_CLOEXEC));
}

int __wrap_eventfd(unsigned initial, int flags) {
  return Track(__real_eventfd(initial, flags | EFD_CLOEXEC));
}

}  // extern "C"
