#include "dpdk_nic/port/udp/udp_socket.h"

#include <linux/errqueue.h>
#include <linux/filter.h>
#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/udp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "dpdk_nic/port/udp/port_holders.h"
#include "transport/wire/udp.h"

namespace uroce::nic {
namespace {

using transport::Gid;
using transport::UdpHeader;

bool Set(int fd, int level, int option, int value) {
  return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

bool Configure(int fd, const Gid& address) {
  const bool is_ipv6 = !address.IsIpv4Mapped();
  const bool is_wildcard = IsWildcard(address);
  if (!Set(fd, SOL_SOCKET, SO_RCVBUFFORCE, UdpSocket::kBufferBytes)) {
    Set(fd, SOL_SOCKET, SO_RCVBUF, UdpSocket::kBufferBytes);
  }
  Set(fd, SOL_SOCKET, SO_SNDBUF, UdpSocket::kBufferBytes);
  Set(fd, SOL_UDP, UDP_GRO, 1);  // without it datagrams come one by one
  if (is_ipv6) {
    return Set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1) &&
           // NICs and rdma_rxe send 0 for the UDP checksum: the ICRC is enough.
           Set(fd, SOL_UDP, UDP_NO_CHECK6_RX, 1) &&
           Set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO) &&
           // A new address can be bound before duplicate address detection has ended.
           Set(fd, IPPROTO_IPV6, IPV6_FREEBIND, 1) && Set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1) &&
           Set(fd, IPPROTO_IPV6, IPV6_RECVERR, 1) &&
           (!is_wildcard || Set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1));
  }
  return Set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO) &&
         Set(fd, IPPROTO_IP, IP_RECVTOS, 1) && Set(fd, IPPROTO_IP, IP_RECVERR, 1) &&
         (!is_wildcard || Set(fd, IPPROTO_IP, IP_PKTINFO, 1));
}

// Whether a socket on all addresses gets what is sent to groups that other sockets have joined. If
// all sockets that share the port did, each would get a copy.
void TakeAllGroups(int fd, const Gid& address, bool takes) {
  const bool is_ipv4 = address.IsIpv4Mapped();
  Set(fd, is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6, is_ipv4 ? IP_MULTICAST_ALL : IPV6_MULTICAST_ALL,
      takes ? 1 : 0);
}

// Attaches a BPF program that drops every datagram.
bool DropAllReceived(int fd) {
  sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program = {.len = 1, .filter = &nothing};
  return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

// `holders`: the processes that have the port, as far as they are known.
std::string WhyTaken(const HostAddress& address, const std::string& holders) {
  const std::string text = IsWildcard(address.gid) ? "this host" : AddressText(address.gid);
  const std::string who = holders.empty() ? "another uroce or by the kernel's rdma_rxe" : holders;
  return "UDP port 4791 of " + text + " is taken, by " + who +
         ": end that one ('ss -lunp', 'rdma link'), or choose another address with "
         "'udp,address=ADDR'";
}

std::string WhyNotBound(const HostAddress& address, int error) {
  if (error == EADDRINUSE) return WhyTaken(address, {});
  const std::string text = IsWildcard(address.gid) ? "this host" : AddressText(address.gid);
  return "UDP port 4791 of " + text + " cannot be had (" + std::strerror(error) +
         "): choose another address with 'udp,address=ADDR'";
}

using Cause = UdpSocket::NetworkError::Cause;

// ICMP gives its errors as the same few errno values: the type and code tell them apart.
Cause CauseOf(const sock_extended_err& error) {
  const uint8_t code = error.ee_code;
  if (error.ee_origin == SO_EE_ORIGIN_ICMP) {
    if (error.ee_type == ICMP_TIME_EXCEEDED) return Cause::kTimeExceeded;
    const bool is_prohibited =
        code == ICMP_NET_ANO || code == ICMP_HOST_ANO || code == ICMP_PKT_FILTERED;
    return error.ee_type == ICMP_DEST_UNREACH && is_prohibited ? Cause::kProhibited : Cause::kOther;
  }
  if (error.ee_origin != SO_EE_ORIGIN_ICMP6) return Cause::kOther;
  if (error.ee_type == ICMPV6_TIME_EXCEED) return Cause::kTimeExceeded;
  const bool is_prohibited = code == ICMPV6_ADM_PROHIBITED || code == ICMPV6_POLICY_FAIL;
  return error.ee_type == ICMPV6_DEST_UNREACH && is_prohibited ? Cause::kProhibited : Cause::kOther;
}

// The address behind the error in the same control message.
Gid ReporterOf(const cmsghdr& header) {
  const size_t bytes = header.cmsg_len - CMSG_LEN(sizeof(sock_extended_err));
  sockaddr_storage reporter{};
  std::memcpy(&reporter, CMSG_DATA(&header) + sizeof(sock_extended_err),
              std::min(bytes, sizeof reporter));
  return GidOf(reporter);
}

int OptionOf(int fd, int option) {
  int value = -1;
  socklen_t bytes = sizeof value;
  return getsockopt(fd, SOL_SOCKET, option, &value, &bytes) == 0 ? value : -1;
}

sockaddr_storage BoundAddressOf(int fd) {
  sockaddr_storage bound{};
  socklen_t bytes = sizeof bound;
  getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &bytes);
  return bound;
}

}  // namespace

ErrorOr<UdpSocket> UdpSocket::Open(const HostAddress& address, Use use) {
  if (use == Use::kFirstOfGroup) {
    // A socket could join the group of another fabric of the same user. One that does not share the
    // port shows that there is no such group, and keeps others away until the new group is there.
    auto only = Open(address, Use::kAll);
    if (!only.ok() || !Set(only.value().fd(), SOL_SOCKET, SO_REUSEPORT, 1)) return only;
    auto first = Open(address, Use::kMemberOfGroup);
    if (first.ok()) TakeAllGroups(first.value().fd(), address.gid, true);
    return first;
  }
  if (use == Use::kOrphanedGroup) return JoinOrphanedGroup(address);
  const bool is_for_sending = use == Use::kSending;
  const int family = address.gid.IsIpv4Mapped() ? AF_INET : AF_INET6;
  UniqueFd fd(socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd || !Configure(fd.get(), address.gid) || (is_for_sending && !DropAllReceived(fd.get()))) {
    return Error{std::string("no UDP socket can be had (") + std::strerror(errno) +
                 "): allow this process more open files, on Linux 5.0 or later"};
  }
  const uint16_t port = is_for_sending ? uint16_t{0} : UdpHeader::kRocePort;
  const SocketAddress own = SocketAddress::Make(address.gid, port, address.interface_index);
  if (use == Use::kMemberOfGroup) Set(fd.get(), SOL_SOCKET, SO_REUSEPORT, 1);
  if (use == Use::kMulticast) Set(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  const bool is_beside_others = use == Use::kMemberOfGroup || use == Use::kMulticast;
  if (is_beside_others) TakeAllGroups(fd.get(), address.gid, false);
  if (bind(fd.get(), own.get(), own.bytes) != 0) return Error{WhyNotBound(address, errno)};
  return UdpSocket(std::move(fd), address);
}

// Looks after it has joined: two that join at once see each other, and both leave.
ErrorOr<UdpSocket> UdpSocket::JoinOrphanedGroup(const HostAddress& address) {
  auto first = Open(address, Use::kMemberOfGroup);
  const PortHolders holders = FindPortHolders(address);
  if (!first.ok() || !holders.IsOrphaned()) return Error{WhyTaken(address, holders.Names())};
  UdpSocket joined = std::move(first).value();
  joined.sockets_before_ = holders.sockets - 1;
  TakeAllGroups(joined.fd(), address.gid, true);
  return joined;
}

std::optional<UdpSocket> UdpSocket::Adopt(UniqueFd fd) {
  const int family = OptionOf(fd.get(), SO_DOMAIN);
  const bool is_udp = (family == AF_INET || family == AF_INET6) &&
                      OptionOf(fd.get(), SO_TYPE) == SOCK_DGRAM &&
                      OptionOf(fd.get(), SO_PROTOCOL) == IPPROTO_UDP;
  if (!is_udp) return std::nullopt;
  const sockaddr_storage bound = BoundAddressOf(fd.get());
  if (PortOf(bound) != UdpHeader::kRocePort) return std::nullopt;
  return UdpSocket(std::move(fd), {.gid = GidOf(bound)});
}

// The kernel reports the double of what it was asked for (socket(7), SO_RCVBUF).
UdpSocket::UdpSocket(UniqueFd fd, const HostAddress& address)
    : fd_(std::move(fd)), address_(address) {
  receive_buffer_bytes_ = OptionOf(fd_.get(), SO_RCVBUF) / 2;
  port_ = PortOf(BoundAddressOf(fd_.get()));
}

uint32_t UdpSocket::CountOverflow() const {
  std::array<uint32_t, SK_MEMINFO_VARS> values{};
  socklen_t bytes = sizeof values;
  getsockopt(fd(), SOL_SOCKET, SO_MEMINFO, values.data(), &bytes);
  return values[SK_MEMINFO_DROPS];
}

void UdpSocket::KeepGroupsFromThisHost() const {
  const bool is_ipv4 = gid().IsIpv4Mapped();
  Set(fd(), is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6, is_ipv4 ? IP_MULTICAST_LOOP : IPV6_MULTICAST_LOOP,
      0);
}

std::optional<UdpSocket::NetworkError> UdpSocket::TakeError() const {
  sockaddr_storage destination{};
  alignas(cmsghdr) char control[512];
  msghdr message{};
  message.msg_name = &destination;
  message.msg_namelen = sizeof destination;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(fd(), &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return std::nullopt;
  NetworkError found{.destination = GidOf(destination)};
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    const bool is_error = (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_RECVERR) ||
                          (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_RECVERR);
    if (!is_error || header->cmsg_len < CMSG_LEN(sizeof(sock_extended_err))) continue;
    sock_extended_err error;
    std::memcpy(&error, CMSG_DATA(header), sizeof error);
    found.error = static_cast<int>(error.ee_errno);
    if (found.error == EMSGSIZE) found.mtu_bytes = error.ee_info;
    found.cause = CauseOf(error);
    found.reporter = ReporterOf(*header);
  }
  return found;
}

std::string Explain(const UdpSocket::NetworkError& error) {
  const std::string to = AddressText(error.destination);
  const std::string from = error.reporter.IsZero() ? "" : ", from " + AddressText(error.reporter);
  if (error.cause == Cause::kTimeExceeded) {
    return "packets to " + to + " were dropped on the way, as their hop limit had run out (ICMP " +
           "time exceeded" + from + "): give the address handle a larger grh.hop_limit";
  }
  if (error.cause == Cause::kProhibited) {
    return "a firewall on the way to " + to + " refuses packets (ICMP administratively prohibited" +
           from + "): allow UDP port 4791 there";
  }
  switch (error.error) {
    case ECONNREFUSED:
      return "nothing receives RoCEv2 at " + to +
             " (ICMP port unreachable): start the peer there "
             "with 'uroce run'";
    case EMSGSIZE:
      return "packets are too long for the path to " + to +
             (error.mtu_bytes != 0 ? ", whose MTU is " + std::to_string(error.mtu_bytes) : "") +
             ": choose a smaller MTU with --mtu, or a smaller path MTU for the queue pair";
    case EPERM:
    case EACCES:
      return "a firewall of this host refuses packets to " + to + ": allow UDP port 4791";
    default:
      return "packets to " + to + " cannot be sent (" + std::strerror(error.error) +
             "): see 'ip route get " + to + "'";
  }
}

std::string ExplainOverflow(const transport::Gid& own, int receive_buffer_bytes) {
  if (receive_buffer_bytes >= UdpSocket::kBufferBytes) return {};
  const std::string to = IsWildcard(own) ? "this host" : AddressText(own);
  return "frames to " + to + " are lost for want of room in the socket's receive " +
         "buffer, which has " + std::to_string(receive_buffer_bytes) + " bytes: allow more with " +
         "'sysctl -w net.core.rmem_max=" + std::to_string(UdpSocket::kBufferBytes) + "'";
}

}  // namespace uroce::nic
