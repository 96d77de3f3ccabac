#pragma once

#include <map>
#include <span>
#include <vector>

#include "transport/ids.h"
#include "transport/status.h"

namespace uroce::transport {

class QueuePair;

// The datagram queue pairs that are attached to multicast groups (IBA 10.5.2).
class MulticastTable {
 public:
  // kNoMemory for one group more than kMaxMulticastGroups or one queue pair more in a group than
  // kMaxMulticastMembers. Attaching again changes nothing.
  Status Attach(const Gid& group, QueuePair& qp);
  // kInvalidArgument if it is not attached.
  Status Detach(const Gid& group, QueuePair& qp);
  void DetachFromAll(QueuePair& qp);

  std::span<QueuePair* const> Members(const Gid& group) const;
  bool IsMember(const QueuePair& qp) const;
  std::vector<Gid> GroupsOf(const QueuePair& qp) const;

 private:
  std::map<Gid, std::vector<QueuePair*>> groups_;  // none is empty
};

}  // namespace uroce::transport
