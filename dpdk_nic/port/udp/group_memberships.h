#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/port/udp/udp_address.h"
#include "dpdk_nic/port/udp/udp_socket.h"
#include "transport/ids.h"

namespace uroce::nic {

// The multicast groups that this host is a member of for a UdpPort, on each interface that has an
// address of the port and of the group's IP version.
//
// The kernel lets a socket be a member of 20 groups (net.ipv4.igmp_max_memberships), and a port may
// want thousands. A port whose sockets are on all addresses receives what comes to any group of the
// host: so sockets that receive nothing, as many as it takes, hold its memberships.
//
//   kOfAllAddresses:  port's socket 0.0.0.0:4791 <--- frames
//                     holder, holder, ..         ---- memberships, 20 each
//   kOfTheGroup:      socket 239.1.2.3:4791      <--- frames, and its memberships
class GroupMemberships {
 public:
  // A membership is of one group on one interface. Bounds the descriptors and the kernel's memory.
  static constexpr size_t kMaxMemberships = 8'192;
  // Memberships that Follow keeps free for new groups when it joins on a new interface.
  static constexpr size_t kKeptForGroups = kMaxMemberships / 4;
  // The port that receives looks at each of these sockets.
  static constexpr size_t kMaxSockets = 128;

  enum class Receivers : uint8_t { kOfAllAddresses, kOfTheGroup };
  // How many groups there is room for if each is joined on all interfaces.
  static size_t MaxGroups(Receivers receivers, std::span<const HostAddress> addresses);

  // Returns 0, or an errno value if nothing is joined: ENOSPC if there are too many memberships. An
  // interface that goes meanwhile is no error. Joining again changes nothing.
  int Join(const transport::Gid& group, Receivers receivers,
           std::span<const HostAddress> addresses);
  void Leave(const transport::Gid& group);
  // The addresses of the port have changed: leaves on interfaces that have none any more, and joins
  // on those that have some now, as far as there is room but for kKeptForGroups.
  void Follow(std::span<const HostAddress> addresses);

  // Of groups with a socket of their own (kOfTheGroup); a new one is the last.
  const std::vector<UdpSocket>& sockets() const { return sockets_; }
  size_t memberships() const { return memberships_; }

  // In a forked child: only async-signal-safe calls.
  void AbandonAfterFork();

  // Why a group cannot be joined, as a sentence that says what to do, without full stop.
  static std::string Explain(const transport::Gid& group, int error);

 private:
  // Holds memberships of groups of one IP version.
  struct Holder {
    UniqueFd fd;
    bool is_ipv4;
    bool is_full = false;
    size_t memberships = 0;
  };
  struct Membership {
    int interface_index;
    int fd;  // of the socket that has it
  };
  struct Group {
    Receivers receivers;
    std::vector<Membership> memberships;
  };

  // ENOSPC if there are `most` memberships already.
  int JoinOn(const transport::Gid& group, Group* joined, int interface_index, size_t most);
  int HoldOn(const transport::Gid& group, Group* joined, int interface_index);
  void Drop(const transport::Gid& group, const Membership& membership);
  void CloseSocketOf(const transport::Gid& group);

  std::map<transport::Gid, Group> groups_;
  std::vector<Holder> holders_;
  std::vector<UdpSocket> sockets_;
  size_t memberships_ = 0;
};

}  // namespace uroce::nic
