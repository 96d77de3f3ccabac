// What the af_packet and memif drivers do beyond their own sockets, undone (`ld --wrap`).
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdarg>

extern "C" {

int __real_ioctl(int fd, unsigned long request, void* argument);
int __real_setsockopt(int fd, int level, int option, const void* value, socklen_t value_bytes);
ssize_t __real_sendmsg(int fd, const msghdr* message, int flags);
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

// A peer that went away must not raise SIGPIPE in the application. Nor may memif be told: a server
// that cannot greet a client closes and frees what its interrupt thread still watches, and the
// process is aborted. The end of the connection is noticed in an orderly way when it is read.
ssize_t __wrap_sendmsg(int fd, const msghdr* message, int flags) {
  const ssize_t sent = __real_sendmsg(fd, message, flags | MSG_NOSIGNAL);
  if (sent >= 0 || (errno != EPIPE && errno != ECONNRESET)) return sent;
  size_t bytes = 0;
  for (size_t i = 0; i < message->msg_iovlen; ++i) bytes += message->msg_iov[i].iov_len;
  return static_cast<ssize_t>(bytes);
}

// af_packet waits without limit for a free transmit slot. Here a full ring is back-pressure.
int __wrap_poll(pollfd* fds, nfds_t count, int) { return __real_poll(fds, count, 0); }

}  // extern "C"
