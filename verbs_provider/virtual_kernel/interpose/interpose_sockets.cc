// Calls on sockets, of which only NETLINK_RDMA ones are ours, and write() and writev() to rdma_cm.

#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "verbs_provider/rdma_cm/user_memory.h"
#include "verbs_provider/virtual_kernel/base/real_libc.h"
#include "verbs_provider/virtual_kernel/device/device.h"
#include "verbs_provider/virtual_kernel/interpose/interpose.h"
#include "verbs_provider/virtual_kernel/netlink/netlink_socket.h"
#include "verbs_provider/virtual_kernel/rdma_cm/rdma_cm_file.h"

namespace uroce::verbs::virtual_kernel {
namespace {

using rdma_cm::CopyFromUser;
using rdma_cm::CopyToUser;

// Null for every socket but ours; cheap for those.
std::shared_ptr<NetlinkSocket> Ours(int fd) {
  if (FdTable::KindOf(fd) != FileKind::kNetlink) return nullptr;
  return FdTable::Instance().Find<NetlinkSocket>(fd);
}

int Fail(int error) {
  errno = error;
  return -1;
}

uint64_t Address(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

// The send buffer of the kernel's netlink sockets (net.core.wmem_default), which bounds a datagram,
// and the number of pieces that a call may have.
constexpr size_t kMaxDatagramBytes = 212'992;
constexpr size_t kMaxPieces = 1'024;  // UIO_MAXIOV

// Sends the pieces as one datagram. They are copied first: the application may hand over memory
// that is none.
ssize_t SendPieces(NetlinkSocket& socket, const iovec* user_pieces, size_t count) {
  std::vector<iovec> pieces(std::min(count, kMaxPieces));
  if (count > kMaxPieces) return Fail(EMSGSIZE);
  if (!CopyFromUser(pieces.data(), Address(user_pieces), count * sizeof(iovec))) {
    return Fail(EFAULT);
  }
  std::vector<std::byte> datagram;
  for (const iovec& piece : pieces) {
    const size_t begin = datagram.size();
    if (piece.iov_len > kMaxDatagramBytes - begin) return Fail(EMSGSIZE);
    datagram.resize(begin + piece.iov_len);
    if (!CopyFromUser(datagram.data() + begin, Address(piece.iov_base), piece.iov_len)) {
      return Fail(EFAULT);
    }
  }
  return socket.Send(datagram);
}

ssize_t SendBytes(NetlinkSocket& socket, const void* data, size_t size) {
  const iovec piece = {const_cast<void*>(data), size};
  return SendPieces(socket, &piece, 1);
}

// A file whose driver has a write() only gets a call for each piece, as in the kernel.
ssize_t WritePieces(RdmaCmFile& file, const iovec* user_pieces, int count) {
  if (count < 0 || static_cast<size_t>(count) > kMaxPieces) return Fail(EINVAL);
  std::vector<iovec> pieces(static_cast<size_t>(count));
  if (!CopyFromUser(pieces.data(), Address(user_pieces), pieces.size() * sizeof(iovec))) {
    return Fail(EFAULT);
  }
  ssize_t total = 0;
  for (const iovec& piece : pieces) {
    if (piece.iov_len == 0) continue;
    const ssize_t written = file.Write(piece.iov_base, piece.iov_len);
    if (written < 0) return total != 0 ? total : -1;
    total += written;
  }
  return total;
}

// Writes the address of the sender of all answers, the kernel, whose port id is 0.
bool WriteSender(void* address, socklen_t room) {
  const sockaddr_nl kernel = {.nl_family = AF_NETLINK, .nl_pad = 0, .nl_pid = 0, .nl_groups = 0};
  return CopyToUser(Address(address), &kernel, std::min<size_t>(room, sizeof(kernel)));
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
  return ours ? SendBytes(*ours, data, size) : real::send(fd, data, size, flags);
}

ssize_t InterposedSendto(int fd, const void* data, size_t size, int flags, const sockaddr* address,
                         socklen_t bytes) UROCE_INTERPOSE(sendto);
ssize_t InterposedSendto(int fd, const void* data, size_t size, int flags, const sockaddr* address,
                         socklen_t bytes) {
  const auto ours = Ours(fd);
  return ours ? SendBytes(*ours, data, size) : real::sendto(fd, data, size, flags, address, bytes);
}

ssize_t InterposedWrite(int fd, const void* data, size_t size) UROCE_INTERPOSE(write);
ssize_t InterposedWrite(int fd, const void* data, size_t size) {
  switch (FdTable::KindOf(fd)) {
    case FileKind::kNetlink:
      if (const auto socket = Ours(fd)) return SendBytes(*socket, data, size);
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

ssize_t InterposedWritev(int fd, const iovec* pieces, int count) UROCE_INTERPOSE(writev);
ssize_t InterposedWritev(int fd, const iovec* pieces, int count) {
  switch (FdTable::KindOf(fd)) {
    case FileKind::kNetlink:
      if (count < 0) return Fail(EINVAL);
      if (const auto socket = Ours(fd)) {
        return SendPieces(*socket, pieces, static_cast<size_t>(count));
      }
      break;
    case FileKind::kRdmaCm:
      if (const auto file = FdTable::Instance().Find<RdmaCmFile>(fd)) {
        return WritePieces(*file, pieces, count);
      }
      break;
    default:
      break;
  }
  return real::writev(fd, pieces, count);
}

ssize_t InterposedSendmsg(int fd, const msghdr* message, int flags) UROCE_INTERPOSE(sendmsg);
ssize_t InterposedSendmsg(int fd, const msghdr* message, int flags) {
  const auto ours = Ours(fd);
  if (!ours) return real::sendmsg(fd, message, flags);
  msghdr copy;
  if (!CopyFromUser(&copy, Address(message), sizeof copy)) return Fail(EFAULT);
  return SendPieces(*ours, copy.msg_iov, copy.msg_iovlen);
}

// recv() and read() need no help: answers lie in the descriptor's own queue. These two also return
// the sender's address.
ssize_t InterposedRecvmsg(int fd, msghdr* message, int flags) UROCE_INTERPOSE(recvmsg);
ssize_t InterposedRecvmsg(int fd, msghdr* message, int flags) {
  if (FdTable::KindOf(fd) != FileKind::kNetlink) return real::recvmsg(fd, message, flags);
  msghdr copy;
  if (!CopyFromUser(&copy, Address(message), sizeof copy)) return Fail(EFAULT);
  void* const name = std::exchange(copy.msg_name, nullptr);
  const socklen_t room = std::exchange(copy.msg_namelen, socklen_t{0});
  const ssize_t received = real::recvmsg(fd, &copy, flags);
  if (received < 0) return received;
  if (name != nullptr && !WriteSender(name, room)) return Fail(EFAULT);
  copy.msg_name = name;
  copy.msg_namelen = name == nullptr ? room : socklen_t{sizeof(sockaddr_nl)};
  return CopyToUser(Address(message), &copy, sizeof copy) ? received : Fail(EFAULT);
}

ssize_t InterposedRecvfrom(int fd, void* data, size_t size, int flags, sockaddr* address,
                           socklen_t* bytes) UROCE_INTERPOSE(recvfrom);
ssize_t InterposedRecvfrom(int fd, void* data, size_t size, int flags, sockaddr* address,
                           socklen_t* bytes) {
  if (FdTable::KindOf(fd) != FileKind::kNetlink || address == nullptr) {
    return real::recvfrom(fd, data, size, flags, address, bytes);
  }
  socklen_t room;
  const ssize_t received = real::recvfrom(fd, data, size, flags, nullptr, nullptr);
  if (received < 0) return received;
  const socklen_t needed = sizeof(sockaddr_nl);
  const bool is_told = CopyFromUser(&room, Address(bytes), sizeof room) &&
                       WriteSender(address, room) &&
                       CopyToUser(Address(bytes), &needed, sizeof needed);
  return is_told ? received : Fail(EFAULT);
}

}  // extern "C"
}  // namespace uroce::verbs::virtual_kernel
