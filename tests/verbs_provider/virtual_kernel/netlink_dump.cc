// Lists the RDMA devices that netlink knows, one name a line, as `rdma dev` does.

#include <infiniband/verbs.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstring>

#include "verbs_provider/virtual_kernel/netlink/netlink_message.h"

namespace {

using uroce::verbs::virtual_kernel::ForEachAttribute;
using uroce::verbs::virtual_kernel::ForEachMessage;

// Prints the names in one datagram. Returns true if the datagram ends the dump.
bool Print(std::span<const std::byte> datagram) {
  bool done = false;
  ForEachMessage(datagram, [&](const nlmsghdr& header, std::span<const std::byte> payload) {
    done = header.nlmsg_type == NLMSG_DONE;
    ForEachAttribute(payload, [](uint16_t type, std::span<const std::byte> value) {
      if (type == RDMA_NLDEV_ATTR_DEV_NAME) puts(reinterpret_cast<const char*>(value.data()));
    });
    return !done;
  });
  return done;
}

}  // namespace

int main() {
  ibv_fork_init();  // keeps libibverbs linked in; the device exists only beside it
  const int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA);
  if (fd < 0) return 1;
  nlmsghdr request = {};
  request.nlmsg_len = sizeof(request);
  request.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET);
  request.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  if (send(fd, &request, sizeof(request), 0) != sizeof(request)) return 1;
  std::byte buffer[8192];
  while (true) {
    sockaddr_nl sender;
    memset(&sender, 0xff, sizeof(sender));
    socklen_t sender_bytes = sizeof(sender);
    const ssize_t received = recvfrom(fd, buffer, sizeof(buffer), 0,
                                      reinterpret_cast<sockaddr*>(&sender), &sender_bytes);
    if (received <= 0 || sender.nl_family != AF_NETLINK || sender.nl_pid != 0) return 1;
    if (Print({buffer, static_cast<size_t>(received)})) return 0;
  }
}
