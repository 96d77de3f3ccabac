// Undoes what the af_packet and af_xdp drivers do beyond their own sockets (`ld --wrap`).
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>

#include "dpdk_nic/port/dpdk/eal/descriptor_shims.h"

extern "C" {

int __real_ioctl(int fd, unsigned long request, void* argument);
int __real_setsockopt(int fd, int level, int option, const void* value, socklen_t value_bytes);
void* __real_mmap64(void* address, size_t bytes, int protection, int flags, int fd, off64_t offset);
int __real_poll(pollfd* fds, nfds_t count, int timeout_ms);
int __real_bind(int fd, const sockaddr* address, socklen_t address_bytes);
ssize_t __real_send(int fd, const void* data, size_t bytes, int flags);

// The interface belongs to the administrator. Starting af_packet would clear an IFF_PROMISC that
// another program set, and set the MAC address anew; killed, it would leave IFF_PROMISC behind. It
// would also need CAP_NET_ADMIN.
int __wrap_ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  if (request == SIOCSIFFLAGS || request == SIOCSIFHWADDR || request == SIOCSIFMTU) return 0;
  return __real_ioctl(fd, request, argument);
}

// A queue takes one AF_XDP socket, and the kernel releases a closed one only later: that of a port
// that was just closed, or of a process that was killed. So bind() is repeated.
int __wrap_bind(int fd, const sockaddr* address, socklen_t address_bytes) {
  constexpr int kMostTries = 1'000;
  constexpr useconds_t kPauseUs = 1'000;
  int result = __real_bind(fd, address, address_bytes);
  for (int i = 0; i < kMostTries && result != 0 && errno == EBUSY; ++i) {
    if (address->sa_family != AF_XDP) break;
    usleep(kPauseUs);
    result = __real_bind(fd, address, address_bytes);
  }
  return result;
}

// af_packet joins a fanout group even with one queue, under a number made of the pid: two
// containers can have the same. The group also disables PACKET_IGNORE_OUTGOING.
int __wrap_setsockopt(int fd, int level, int option, const void* value, socklen_t value_bytes) {
  if (level == SOL_PACKET && option == PACKET_FANOUT) return 0;
  return __real_setsockopt(fd, level, option, value, value_bytes);
}

// af_packet locks its ring in memory, where it is anyway: it would only use up the application's
// RLIMIT_MEMLOCK. A forked child that keeps the rings mapped would keep the socket alive when we
// are gone, and an interface's queue takes one AF_XDP socket only.
void* __wrap_mmap64(void* address, size_t bytes, int protection, int flags, int fd,
                    off64_t offset) {
  void* mapped = __real_mmap64(address, bytes, protection, flags & ~MAP_LOCKED, fd, offset);
  const bool is_ring = fd >= 0 && fd == uroce::nic::LastPacketSocket();
  if (is_ring && mapped != MAP_FAILED) madvise(mapped, bytes, MADV_DONTFORK);
  return mapped;
}

// af_packet waits without limit for a free transmit slot. Here a full ring is back-pressure.
// af_xdp waits for frames to receive where a NIC has to be woken for them.
int __wrap_poll(pollfd* fds, nfds_t count, int) { return __real_poll(fds, count, 0); }

// af_xdp makes the kernel send its ring by sending nothing, and tries again for as long as the
// kernel is busy. It gives up at other errors; the port's next poll tries again.
ssize_t __wrap_send(int fd, const void* data, size_t bytes, int flags) {
  const ssize_t sent = __real_send(fd, data, bytes, flags);
  const bool is_kick = data == nullptr && bytes == 0;
  if (sent < 0 && is_kick && (errno == EAGAIN || errno == EBUSY)) errno = ENOBUFS;
  return sent;
}

}  // extern "C"
