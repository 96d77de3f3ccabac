// Makes safe what the memif driver does when a peer goes away (`ld --wrap`).
#include <sys/socket.h>

#include <bitset>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "dpdk_nic/base/cancellation_guard.h"
#include "dpdk_nic/port/dpdk/eal/burst_guard.h"
#include "dpdk_nic/port/dpdk/eal/descriptor_shims.h"

struct rte_eth_dev;

extern "C" {
void __real_memif_free_regions(rte_eth_dev* device);
ssize_t __real_sendmsg(int fd, const msghdr* message, int flags);
ssize_t __real_recvmsg(int fd, msghdr* message, int flags);
ssize_t __real_read(int fd, void* data, size_t bytes);
ssize_t __real_write(int fd, const void* data, size_t bytes);
}

namespace {

// The first field of a message on memif's control channel is its type, 16 bits (memif protocol
// version 2.0).
constexpr uint16_t kConnect = 6;
constexpr uint16_t kConnected = 7;
constexpr uint16_t kDisconnect = 8;
constexpr uint16_t kClosed = 0xffff;  // not of the protocol: the end of the channel

constexpr std::chrono::milliseconds kDrainTimeout(200);

// Control channels over which a ring was agreed. Used by the interrupt thread only.
std::bitset<65'536> carries_ring;

uint16_t MessageType(const msghdr* message, ssize_t bytes) {
  uint16_t type = kClosed;
  if (bytes < static_cast<ssize_t>(sizeof type) || message->msg_iovlen == 0) return type;
  if (message->msg_iov[0].iov_len < sizeof type) return type;  // libbpf first asks for the length
  memcpy(&type, message->msg_iov[0].iov_base, sizeof type);
  return type;
}

// A peer that leaves has sent its last frames, acknowledgements most likely, just before: waits
// until they are received, before the driver learns of the end and throws the ring away.
void FollowConnection(size_t fd, uint16_t type) {
  if (fd >= carries_ring.size()) return;
  if (type == kConnect || type == kConnected) carries_ring[fd] = true;
  if (type != kDisconnect && type != kClosed) return;
  if (carries_ring[fd]) uroce::nic::BurstGuard::WaitUntilAllDrained(kDrainTimeout);
  carries_ring[fd] = false;
}

void TrackReceivedDescriptors(msghdr* message) {
  for (cmsghdr* control = CMSG_FIRSTHDR(message); control != nullptr;
       control = CMSG_NXTHDR(message, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) continue;
    const uint8_t* data = CMSG_DATA(control);
    const uint8_t* end = reinterpret_cast<const uint8_t*>(control) + control->cmsg_len;
    for (; data + sizeof(int) <= end; data += sizeof(int)) {
      int fd = -1;
      memcpy(&fd, data, sizeof fd);
      uroce::nic::TrackDescriptor(fd);
    }
  }
}

}  // namespace

extern "C" {

// Called on the interrupt thread while the polling thread may be copying from the regions. By now
// the driver has cleared the flag that every burst checks first.
void __wrap_memif_free_regions(rte_eth_dev* device) {
  uroce::nic::BurstGuard::WaitUntilAllIdle();
  __real_memif_free_regions(device);
}

// The cancellation points of memif's bursts: they wake a peer that sleeps until its interrupt, as
// no uroce does. A guard around each burst would cost a tenth of the latency of a message.
ssize_t __wrap_read(int fd, void* data, size_t bytes) {
  const uroce::nic::CancellationGuard guard;
  return __real_read(fd, data, bytes);
}

ssize_t __wrap_write(int fd, const void* data, size_t bytes) {
  const uroce::nic::CancellationGuard guard;
  return __real_write(fd, data, bytes);
}

ssize_t __wrap_recvmsg(int fd, msghdr* message, int flags) {
  const ssize_t bytes = __real_recvmsg(fd, message, flags | MSG_CMSG_CLOEXEC);
  if (bytes < 0) return bytes;
  TrackReceivedDescriptors(message);
  FollowConnection(static_cast<size_t>(fd), MessageType(message, bytes));
  return bytes;
}

// A peer that went away must not raise SIGPIPE in the application. Nor may memif see the error: a
// server that cannot greet a client closes and frees what its interrupt thread still watches, and
// the process is aborted. Reading notices the end of the connection in an orderly way.
ssize_t __wrap_sendmsg(int fd, const msghdr* message, int flags) {
  const ssize_t sent = __real_sendmsg(fd, message, flags | MSG_NOSIGNAL);
  if (sent >= 0 || (errno != EPIPE && errno != ECONNRESET)) return sent;
  size_t bytes = 0;
  for (size_t i = 0; i < message->msg_iovlen; ++i) bytes += message->msg_iov[i].iov_len;
  return static_cast<ssize_t>(bytes);
}

}  // extern "C"
