// What the af_packet driver does beyond its own socket, undone (`ld --wrap`).
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cstdarg>

extern "C" {

int __real_ioctl(int fd, unsigned long request, void* argument);
int __real_setsockopt(int fd, int level, int option, const void* value, socklen_t value_bytes);
void* __real_mmap64(void* address, size_t bytes, int protection, int flags, int fd, off64_t offset);
int __real_poll(pollfd* fds, nfds_t count, int timeout_ms);

// The interface belongs to the administrator. Starting af_packet would clear an IFF_PROMISC that
// somebody else set and set the MAC address anew; killed, it would leave IFF_PROMISC behind. It
// would also need CAP_NET_ADMIN.
int __wrap_ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  if (request == SIOCSIFFLAGS || request == SIOCSIFHWADDR || request == SIOCSIFMTU) return 0;
  return __real_ioctl(fd, request, argument);
}

// af_packet joins a fanout group even with one queue, under a number made of the pid: two
// containers can have the same. The group also disables PACKET_IGNORE_OUTGOING.
int __wrap_setsockopt(int fd, int level, int option, const void* value, socklen_t value_bytes) {
  if (level == SOL_PACKET && option == PACKET_FANOUT) return 0;
  return __real_setsockopt(fd, level, option, value, value_bytes);
}

// af_packet locks its ring in memory, where it is anyway: it would only use up the application's
// RLIMIT_MEMLOCK.
void* __wrap_mmap64(void* address, size_t bytes, int protection, int flags, int fd,
                    off64_t offset) {
  return __real_mmap64(address, bytes, protection, flags & ~MAP_LOCKED, fd, offset);
}

// af_packet waits without limit for a free transmit slot. Here a full ring is back-pressure.
int __wrap_poll(pollfd* fds, nfds_t count, int) { return __real_poll(fds, count, 0); }

}  // extern "C"
