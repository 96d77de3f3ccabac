#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

#include "dpdk_nic/control/messages.h"
#include "transport/ids.h"

namespace uroce::nic::control {

// Records the multicast groups of each process and user, so that no user takes all the room of the
// wire. A group counts once for its user, however many of the user's processes are members. Pure,
// as Registry is.
class GroupShares {
 public:
  // A user may have half of all, so that one user cannot keep out all others, and a process half of
  // that, so that it cannot keep out other processes of its user.
  static constexpr size_t UserLimit(size_t room) { return room / 2; }
  static constexpr size_t ProcessLimit(size_t room) { return room / 4; }

  enum class Verdict : uint8_t { kMayJoin, kProcessHasTooMany, kUserHasTooMany };
  // `room`: the number of groups that the wire has room for. A member may join again.
  Verdict MayJoin(Block block, uid_t uid, const transport::Gid& group, size_t room) const;
  // Joining again changes nothing.
  void Join(Block block, uid_t uid, const transport::Gid& group);
  void Leave(Block block, const transport::Gid& group);
  // Forgets the groups of a process that is gone.
  void Remove(Block block);

  size_t GroupsOf(Block block) const;
  size_t GroupsOfUser(uid_t uid) const;

 private:
  struct Process {
    uid_t uid;
    std::set<transport::Gid> groups;  // never empty
  };
  using Members = std::map<transport::Gid, uint32_t>;  // how many processes each group has

  std::map<Block, Process> processes_;
  std::map<uid_t, Members> users_;  // none empty
};

}  // namespace uroce::nic::control
