#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "dpdk_nic/control/frame_switch.h"
#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/switch/keyed_hash.h"
#include "dpdk_nic/switch/service_table.h"
#include "dpdk_nic/switch/zeroed_pages.h"
#include "transport/ids.h"
#include "transport/limits.h"
#include "transport/route.h"

namespace uroce::nic {

// Records what the processes of a fabric told the switch: which queue pairs beyond the wire their
// own are connected to, and which multicast groups and CM service ids they want frames of. Knows
// nothing of frames and links.
//
// A connection is stored at the place of its local queue pair, so that it is forgotten and replaced
// without a search. Its alternate path has a second place. Connections with the same hash of
// {remote GID, remote QPN} are chained by QPN.
//
//   bucket ---> QPN of block 7 <---> QPN of block 3
//                   |                    |
//   block 7: | .. | connection | ..      |
//   block 3: | connection | .............|..   a place for each QPN of the block, and behind them
//                                              one for each alternate path
//
// Only the first declaration of a block, groups and listeners allocate.
class ForwardingTable {
 public:
  // Whether processes may have the block: the first is the switch itself, the last holds the QPN of
  // multicast datagrams.
  static constexpr bool IsProcess(control::Block block) {
    return block > control::kSwitchBlock && block < transport::kQpnBlocks - 1;
  }

  // Groups of one process: as many as its device reports. Its connections are limited by its queue
  // pairs.
  static constexpr size_t kMaxGroups = transport::kMaxMulticastGroups;

  ForwardingTable();

  // In all of these calls `block` has to be a process's (IsProcess).

  // 0, EBUSY if another process is connected to the same remote queue pair (by one of the two
  // addresses that it may have), EINVAL if `local` is not of the block or the remote end is not a
  // queue pair, ENOMEM. Replaces an earlier declaration of `local`, unless there is an error.
  control::ErrnoValue Declare(control::Block block, const control::Declare& connection);
  void Forget(control::Block block, transport::Qpn local);
  // Whether the block declared a connection to the remote queue pair.
  bool IsDeclared(control::Block block, const transport::Gid& remote_gid,
                  transport::Qpn remote) const;

  // 0, EINVAL if `group` is no multicast group, ENOSPC. Joining again changes nothing.
  control::ErrnoValue JoinGroup(control::Block block, const transport::Gid& group);
  void LeaveGroup(control::Block block, const transport::Gid& group);
  std::vector<transport::Gid> GroupsOf(control::Block block) const {
    return processes_[block].groups;
  }
  std::span<const control::Block> Members(const transport::Gid& group) const;

  ServiceTable& services() { return services_; }
  const ServiceTable& services() const { return services_; }

  // Forgets all that the process told.
  void Remove(control::Block block);

  control::SwitchUsage usage(control::Block block) const;

 private:
  // A place: the local QPN, with kAlternate set for the alternate path. 0: none; that QPN is of the
  // switch's own block.
  using Link = uint32_t;
  static constexpr Link kAlternate = transport::kMaxQpn + 1;
  static constexpr control::Block BlockOf(Link place) {
    return transport::BlockOf(transport::Qpn{place & transport::kMaxQpn});
  }
  static constexpr size_t IndexOf(Link place) {
    const size_t index = place % transport::kMaxQps;
    return (place & kAlternate) == 0 ? index : transport::kMaxQps + index;
  }

  struct Connection {
    transport::Gid remote_gid;
    transport::Qpn remote;
    Link next;      // in the same bucket
    Link previous;  // 0: the first one of its bucket
    uint32_t is_declared;
  };
  struct Process {
    ZeroedPages<Connection> connections;  // by IndexOf; none until the first is declared
    uint32_t declared = 0;
    std::vector<transport::Gid> groups;
  };

  static bool IsIn(transport::Qpn qpn, control::Block block);
  size_t BucketOf(const transport::Gid& gid, transport::Qpn qpn) const;
  Connection& At(Link place) { return processes_[BlockOf(place)].connections[IndexOf(place)]; }
  const Connection& At(Link place) const {
    return processes_[BlockOf(place)].connections[IndexOf(place)];
  }
  // The block that is connected to the remote queue pair; kSwitchBlock if none is.
  control::Block OwnerOf(const transport::Gid& remote_gid, transport::Qpn remote) const;
  bool IsOfAnother(control::Block block, const transport::Gid& remote_gid,
                   transport::Qpn remote) const;
  void InsertConnection(Link place, const transport::Gid& remote_gid, transport::Qpn remote);
  void RemoveConnection(Link place);
  void RemoveBothPaths(transport::Qpn local);

  const KeyedHash hash_;
  ZeroedPages<Link> buckets_;
  std::array<Process, transport::kQpnBlocks> processes_;
  std::unordered_map<transport::Gid, std::vector<control::Block>, KeyedHash> groups_;  // none empty
  ServiceTable services_;
};

}  // namespace uroce::nic
