// Preloaded behind the virtual kernel, this stands in for a real kernel with RDMA: sockets of
// NETLINK_RDMA exist and know one device, "fake0" of index 0. The directory that FAKE_VERBS_CLASS
// names is listed as /sys/class/infiniband_verbs.

#include <dirent.h>
#include <dlfcn.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "verbs_provider/virtual_kernel/netlink/netlink_message.h"

namespace {

using uroce::verbs::virtual_kernel::MakeDone;
using uroce::verbs::virtual_kernel::MakeError;
using uroce::verbs::virtual_kernel::NetlinkBytes;
using uroce::verbs::virtual_kernel::NetlinkMessage;

// The "kernel's" end of the socket pair that is the last NETLINK_RDMA socket.
std::atomic<int> kernel_end = -1;

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

NetlinkBytes Device(const nlmsghdr& request, uint16_t flags) {
  NetlinkMessage message(request, request.nlmsg_type, flags);
  message.PutU32(RDMA_NLDEV_ATTR_DEV_INDEX, 0);
  message.PutString(RDMA_NLDEV_ATTR_DEV_NAME, "fake0");
  message.PutU8(RDMA_NLDEV_ATTR_DEV_NODE_TYPE, RDMA_NODE_IB_CA);
  return std::move(message).Finish();
}

void Reply(const NetlinkBytes& bytes) {
  Next<ssize_t(int, const void*, size_t)>("write")(kernel_end, bytes.data(), bytes.size());
}

}  // namespace

extern "C" {

int socket(int domain, int type, int protocol) noexcept {
  if (domain != AF_NETLINK || protocol != NETLINK_RDMA) {
    return Next<int(int, int, int)>("socket")(domain, type, protocol);
  }
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return -1;
  kernel_end = ends[1];
  return ends[0];
}

int bind(int fd, const sockaddr* address, socklen_t bytes) noexcept {
  sockaddr_storage bound;
  socklen_t room = sizeof(bound);
  const bool ours = address->sa_family == AF_NETLINK &&
                    getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &room) == 0 &&
                    bound.ss_family == AF_UNIX;
  return ours ? 0 : Next<int(int, const sockaddr*, socklen_t)>("bind")(fd, address, bytes);
}

DIR* opendir(const char* path) {
  const char* fake = getenv("FAKE_VERBS_CLASS");
  const bool is_fake = fake != nullptr && strcmp(path, "/sys/class/infiniband_verbs") == 0;
  return Next<DIR*(const char*)>("opendir")(is_fake ? fake : path);
}

// The virtual kernel has moved our socket to another number, so it is recognised by the request
// sent on it.
ssize_t send(int fd, const void* data, size_t size, int flags) {
  sockaddr_storage bound;
  socklen_t room = sizeof(bound);
  const auto* request = static_cast<const nlmsghdr*>(data);
  // Requests only: the virtual kernel sends answers to the application over such a socket as well.
  const bool is_request = kernel_end >= 0 && size >= sizeof(*request) &&
                          getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &room) == 0 &&
                          bound.ss_family == AF_UNIX && request->nlmsg_len == size &&
                          (request->nlmsg_flags & NLM_F_REQUEST) != 0;
  if (!is_request) {
    return Next<ssize_t(int, const void*, size_t, int)>("send")(fd, data, size, flags);
  }
  constexpr int kGet = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET);
  if (request->nlmsg_type != kGet) {
    Reply(MakeError(*request, -EOPNOTSUPP));
  } else if ((request->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP) {
    // The entry and the end of the dump in one datagram, as the kernel likes to do.
    NetlinkBytes bytes = Device(*request, NLM_F_MULTI);
    const NetlinkBytes done = MakeDone(*request);
    bytes.insert(bytes.end(), done.begin(), done.end());
    Reply(bytes);
  } else {
    Reply(Device(*request, 0));
  }
  return static_cast<ssize_t>(size);
}

}  // extern "C"
