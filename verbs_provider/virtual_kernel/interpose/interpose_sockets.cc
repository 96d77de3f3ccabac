// Calls on sockets, of which only NETLINK_RDMA ones are ours, and write() to rdma_cm.

#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "verbs_provider/virtual_kernel/base/real_libc.h"
#include "verbs_provider/virtual_kernel/device/device.h"
#include "verbs_provider/virtual_kernel/interpose/interpose.h"
#include "verbs_provider/virtual_kernel/netlink/netlink_socket.h"
#include "verbs_provider/virtual_kernel/rdma_cm/rdma_cm_file.h"

namespace uroce::verbs::virtual_kernel {
namespace {

// Null for every socket but ours; cheap for those.
std::shared_ptr<NetlinkSocket> Ours(int fd) {
  if (FdTable::KindOf(fd) != FileKind::kNetlink) return nullptr;
  return FdTable::Instance().Find<NetlinkSocket>(fd);
}

std::span<const std::byte> Bytes(const void* data, size_t size) {
  return {static_cast<const std::byte*>(data), size};
}

// Answers come from the kernel, whose port id is 0.
void FillSender(sockaddr* address, socklen_t room) {
  const sockaddr_nl kernel = {.nl_family = AF_NETLINK, .nl_pad = 0, .nl_pid = 0, .nl_groups = 0};
  std::memcpy(address, &kernel, std::min<size_t>(room, sizeof(kernel)));
}

}  // namespace

extern "C" {

int InterposedSocket(int domain, int type, int protocol) UROCE_INTERPOSE(socket);
int InterposedSocket(int domain, int type, int protocol) {
  if (domain == AF_NETLINK && protocol == NETLINK_RDMA && CurrentDevice() != nullptr) {
    return NetlinkSocket::Open(type);
  }
  return real::socket(domain, type, protocol);
}

int InterposedBind(int fd, const sockaddr* address, socklen_t bytes) UROCE_INTERPOSE(bind);
int InterposedBind(int fd, const sockaddr* address, socklen_t bytes) {
  const auto ours = Ours(fd);
  return ours ? ours->Bind(address, bytes) : real::bind(fd, address, bytes);
}

int InterposedGetsockname(int fd, sockaddr* address, socklen_t* bytes) UROCE_INTERPOSE(getsockname);
int InterposedGetsockname(int fd, sockaddr* address, socklen_t* bytes) {
  const auto ours = Ours(fd);
  return ours ? ours->GetSockName(address, bytes) : real::getsockname(fd, address, bytes);
}

int InterposedGetsockopt(int fd, int level, int option, void* value, socklen_t* bytes)
    UROCE_INTERPOSE(getsockopt);
int InterposedGetsockopt(int fd, int level, int option, void* value, socklen_t* bytes) {
  const auto ours = level == SOL_NETLINK ? Ours(fd) : nullptr;
  return ours ? ours->GetSockOpt(option, value, bytes)
              : real::getsockopt(fd, level, option, value, bytes);
}

int InterposedSetsockopt(int fd, int level, int option, const void* value, socklen_t bytes)
    UROCE_INTERPOSE(setsockopt);
int InterposedSetsockopt(int fd, int level, int option, const void* value, socklen_t bytes) {
  const auto ours = level == SOL_NETLINK ? Ours(fd) : nullptr;
  return ours ? ours->SetSockOpt(option, value, bytes)
              : real::setsockopt(fd, level, option, value, bytes);
}

ssize_t InterposedSend(int fd, const void* data, size_t size, int flags) UROCE_INTERPOSE(send);
ssize_t InterposedSend(int fd, const void* data, size_t size, int flags) {
  const auto ours = Ours(fd);
  return ours ? ours->Send(Bytes(data, size)) : real::send(fd, data, size, flags);
}

ssize_t InterposedSendto(int fd, const void* data, size_t size, int flags, const sockaddr* address,
                         socklen_t bytes) UROCE_INTERPOSE(sendto);
ssize_t InterposedSendto(int fd, const void* data, size_t size, int flags, const sockaddr* address,
                         socklen_t bytes) {
  const auto ours = Ours(fd);
  return ours ? ours->Send(Bytes(data, size)) : real::sendto(fd, data, size, flags, address, bytes);
}

ssize_t InterposedWrite(int fd, const void* data, size_t size) UROCE_INTERPOSE(write);
ssize_t InterposedWrite(int fd, const void* data, size_t size) {
  switch (FdTable::KindOf(fd)) {
    case FileKind::kNetlink:
      if (const auto socket = Ours(fd)) return socket->Send(Bytes(data, size));
      break;
    case FileKind::kRdmaCm:
      if (const auto file = FdTable::Instance().Find<RdmaCmFile>(fd)) {
        return file->Write(data, size);
      }
      break;
    default:
      break;
  }
  return real::write(fd, data, size);
}

ssize_t InterposedSendmsg(int fd, const msghdr* message, int flags) UROCE_INTERPOSE(sendmsg);
ssize_t InterposedSendmsg(int fd, const msghdr* message, int flags) {
  const auto ours = Ours(fd);
  if (!ours) return real::sendmsg(fd, message, flags);
  std::vector<std::byte> datagram;
  for (size_t part = 0; part < message->msg_iovlen; ++part) {
    const auto bytes = Bytes(message->msg_iov[part].iov_base, message->msg_iov[part].iov_len);
    datagram.insert(datagram.end(), bytes.begin(), bytes.end());
  }
  return ours->Send(datagram);
}

// recv() and read() need no help: answers lie in the descriptor's own queue. These two also return
// the sender's address.
ssize_t InterposedRecvmsg(int fd, msghdr* message, int flags) UROCE_INTERPOSE(recvmsg);
ssize_t InterposedRecvmsg(int fd, msghdr* message, int flags) {
  if (FdTable::KindOf(fd) != FileKind::kNetlink) return real::recvmsg(fd, message, flags);
  void* const name = message->msg_name;
  const socklen_t room = message->msg_namelen;
  message->msg_name = nullptr;
  message->msg_namelen = 0;
  const ssize_t received = real::recvmsg(fd, message, flags);
  message->msg_name = name;
  if (name != nullptr && received >= 0) {
    FillSender(static_cast<sockaddr*>(name), room);
    message->msg_namelen = sizeof(sockaddr_nl);
  }
  return received;
}

ssize_t InterposedRecvfrom(int fd, void* data, size_t size, int flags, sockaddr* address,
                           socklen_t* bytes) UROCE_INTERPOSE(recvfrom);
ssize_t InterposedRecvfrom(int fd, void* data, size_t size, int flags, sockaddr* address,
                           socklen_t* bytes) {
  if (FdTable::KindOf(fd) != FileKind::kNetlink || address == nullptr) {
    return real::recvfrom(fd, data, size, flags, address, bytes);
  }
  const ssize_t received = real::recvfrom(fd, data, size, flags, nullptr, nullptr);
  if (received >= 0) {
    FillSender(address, *bytes);
    *bytes = sizeof(sockaddr_nl);
  }
  return received;
}

}  // extern "C"
}  // namespace uroce::verbs::virtual_kernel
