#include "verbs_provider/virtual_kernel/netlink/netlink_socket.h"

#include <linux/netlink.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "dpdk_nic/base/cancellation_guard.h"
#include "verbs_provider/rdma_cm/user_memory.h"
#include "verbs_provider/virtual_kernel/base/real_libc.h"
#include "verbs_provider/virtual_kernel/device/device.h"

namespace uroce::verbs::virtual_kernel {
namespace {

using rdma_cm::CopyFromUser;
using rdma_cm::CopyToUser;

// The kernel builds dump answers in buffers of at most 32 KiB.
constexpr size_t kLargestDatagramBytes = 1 << 16;
// Room for the answer to a dump of thousands of objects; the kernel grants what its limit allows.
constexpr int kAnswerBufferBytes = 1 << 20;

// The entries in a dump's datagram, and whether the message that ends the dump follows them.
struct DumpPart {
  std::span<const std::byte> entries;
  bool ended = false;
};

DumpPart SplitDump(std::span<const std::byte> datagram) {
  DumpPart part;
  size_t entry_bytes = 0;
  ForEachMessage(datagram, [&](const nlmsghdr& header, std::span<const std::byte> /*payload*/) {
    part.ended = header.nlmsg_type == NLMSG_DONE || header.nlmsg_type == NLMSG_ERROR;
    if (!part.ended) entry_bytes += NLMSG_ALIGN(header.nlmsg_len);
    return !part.ended;
  });
  part.entries = datagram.first(std::min(entry_bytes, datagram.size()));
  return part;
}

}  // namespace

NetlinkSocket::NetlinkSocket(PrivateFd answers, PrivateFd kernel)
    : OpenFile(FileKind::kNetlink),
      answers_(std::move(answers)),
      kernel_(std::move(kernel)),
      port_id_(static_cast<uint32_t>(getpid())) {}

int NetlinkSocket::Open(int type) {
  const nic::CancellationGuard cancellation;
  PrivateFd kernel(real::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA));
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | (type & (SOCK_CLOEXEC | SOCK_NONBLOCK)), 0, ends) != 0) {
    return -1;
  }
  PrivateFd answers(ends[1]);
  if (!FdTable::InRange(ends[0])) {
    real::close(ends[0]);
    errno = EMFILE;
    return -1;
  }
  real::setsockopt(answers.get(), SOL_SOCKET, SO_SNDBUF, &kAnswerBufferBytes,
                   sizeof(kAnswerBufferBytes));
  FdTable::Instance().Insert(
      ends[0], std::make_shared<NetlinkSocket>(std::move(answers), std::move(kernel)));
  return ends[0];
}

int NetlinkSocket::Bind(const sockaddr* address, socklen_t bytes) {
  if (kernel_) return real::bind(kernel_.get(), address, bytes);
  sockaddr_nl wanted;
  if (bytes < sizeof(wanted)) {
    errno = EINVAL;
    return -1;
  }
  if (!CopyFromUser(&wanted, reinterpret_cast<uintptr_t>(address), sizeof(wanted))) {
    errno = EFAULT;
    return -1;
  }
  if (wanted.nl_pid != 0) port_id_ = wanted.nl_pid;
  return 0;
}

int NetlinkSocket::GetSockName(sockaddr* address, socklen_t* bytes) const {
  if (kernel_) return real::getsockname(kernel_.get(), address, bytes);
  const sockaddr_nl name = {
      .nl_family = AF_NETLINK, .nl_pad = 0, .nl_pid = port_id_, .nl_groups = 0};
  socklen_t room;
  const socklen_t needed = sizeof(name);
  const auto user_bytes = reinterpret_cast<uintptr_t>(bytes);
  const bool is_copied = CopyFromUser(&room, user_bytes, sizeof(room)) &&
                         CopyToUser(reinterpret_cast<uintptr_t>(address), &name,
                                    std::min<size_t>(room, sizeof(name))) &&
                         CopyToUser(user_bytes, &needed, sizeof(needed));
  if (!is_copied) errno = EFAULT;
  return is_copied ? 0 : -1;
}

int NetlinkSocket::GetSockOpt(int option, void* value, socklen_t* bytes) const {
  if (kernel_) return real::getsockopt(kernel_.get(), SOL_NETLINK, option, value, bytes);
  errno = ENOPROTOOPT;
  return -1;
}

int NetlinkSocket::SetSockOpt(int option, const void* value, socklen_t bytes) {
  // Without a kernel there is nothing these options could change: our answers carry no extended
  // acknowledgements, and there are no groups.
  return kernel_ ? real::setsockopt(kernel_.get(), SOL_NETLINK, option, value, bytes) : 0;
}

ssize_t NetlinkSocket::Send(std::span<const std::byte> datagram) {
  const nic::CancellationGuard cancellation;
  const Device* device = CurrentDevice();
  bool delivered = true;
  const nic::MutexLock lock(mutex_);
  ForEachMessage(datagram, [&](const nlmsghdr& header, std::span<const std::byte> payload) {
    mutex_.AssertHeld();
    const NetlinkAnswer answer =
        AnswerNetlink(header, payload, device->description, static_cast<bool>(kernel_),
                      static_cast<bool>(device->rdma_cm));
    const bool dump = (header.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
    // The message begins a fixed header in front of its payload.
    const std::span<const std::byte> request(payload.data() - NLMSG_HDRLEN, header.nlmsg_len);
    if (answer.forward) delivered = Relay(request, dump);
    for (const NetlinkBytes& message : answer.messages) delivered = delivered && Deliver(message);
    return delivered;
  });
  if (delivered) return static_cast<ssize_t>(datagram.size());
  errno = ENOBUFS;
  return -1;
}

// The kernel executes netlink requests inside send(), and the rest of a dump inside the receives,
// so the answer is always there already: nothing here waits.
bool NetlinkSocket::Relay(std::span<const std::byte> request, bool dump) {
  if (real::send(kernel_.get(), request.data(), request.size(), 0) < 0) {
    nlmsghdr header;
    std::memcpy(&header, request.data(), sizeof(header));
    return dump || Deliver(MakeError(header, -errno));
  }
  std::vector<std::byte> buffer(kLargestDatagramBytes);
  while (true) {
    const ssize_t received =
        real::recvfrom(kernel_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT, nullptr, nullptr);
    if (received <= 0) return true;
    const std::span<const std::byte> datagram(buffer.data(), static_cast<size_t>(received));
    if (!dump) {
      if (!Deliver(datagram)) return false;
      continue;
    }
    const DumpPart part = SplitDump(datagram);
    if (!part.entries.empty() && !Deliver(part.entries)) return false;
    if (part.ended) return true;
  }
}

bool NetlinkSocket::Deliver(std::span<const std::byte> datagram) {
  return real::send(answers_.get(), datagram.data(), datagram.size(),
                    MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

}  // namespace uroce::verbs::virtual_kernel
