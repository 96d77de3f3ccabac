#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "dpdk_nic/base/mutex.h"
#include "dpdk_nic/base/thread_annotations.h"
#include "verbs_provider/virtual_kernel/base/fd_table.h"
#include "verbs_provider/virtual_kernel/netlink/netlink_answers.h"

namespace uroce::verbs::virtual_kernel {

// A NETLINK_RDMA socket of the application. Its descriptor is one end of a socket pair, from which
// the application receives with any call. Requests are answered when they are sent, by us and by a
// socket of the real kernel if that speaks NETLINK_RDMA, merged into one answer.
class NetlinkSocket : public OpenFile {
 public:
  // socket(AF_NETLINK, type, NETLINK_RDMA). The caller has made sure that there is a device.
  static int Open(int type);

  int Bind(const sockaddr* address, socklen_t bytes);
  int GetSockName(sockaddr* address, socklen_t* bytes) const;
  // For options at level SOL_NETLINK.
  int GetSockOpt(int option, void* value, socklen_t* bytes) const;
  int SetSockOpt(int option, const void* value, socklen_t bytes);

  // Answers the requests in `datagram`. Returns its size, or -1 with errno: ENOBUFS when the
  // application does not read the answers.
  ssize_t Send(std::span<const std::byte> datagram);

  NetlinkSocket(PrivateFd answers, PrivateFd kernel);

 private:
  bool Relay(std::span<const std::byte> request, bool dump) UROCE_REQUIRES(mutex_);
  bool Deliver(std::span<const std::byte> datagram) UROCE_REQUIRES(mutex_);

  nic::Mutex mutex_;   // held for a request and its answer: two answers must not be mixed
  PrivateFd answers_;  // the other end of the application's descriptor
  PrivateFd kernel_;   // empty if this kernel has no RDMA
  uint32_t port_id_;   // returned by getsockname when there is no kernel socket
};

}  // namespace uroce::verbs::virtual_kernel
