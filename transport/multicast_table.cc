#include "transport/multicast_table.h"

#include <algorithm>

#include "transport/limits.h"

namespace uroce::transport {

Status MulticastTable::Attach(const Gid& group, QueuePair& qp) {
  auto found = groups_.find(group);
  if (found == groups_.end()) {
    if (groups_.size() == kMaxMulticastGroups) return Status::kNoMemory;
    found = groups_.emplace(group, std::vector<QueuePair*>{}).first;
  }
  std::vector<QueuePair*>& members = found->second;
  if (std::ranges::find(members, &qp) != members.end()) return Status::kOk;
  if (members.size() == kMaxMulticastMembers) return Status::kNoMemory;
  members.push_back(&qp);
  return Status::kOk;
}

Status MulticastTable::Detach(const Gid& group, QueuePair& qp) {
  const auto found = groups_.find(group);
  if (found == groups_.end() || std::erase(found->second, &qp) == 0) {
    return Status::kInvalidArgument;
  }
  if (found->second.empty()) groups_.erase(found);
  return Status::kOk;
}

void MulticastTable::DetachFromAll(QueuePair& qp) {
  for (auto& [group, members] : groups_) std::erase(members, &qp);
  std::erase_if(groups_, [](const auto& group) { return group.second.empty(); });
}

std::span<QueuePair* const> MulticastTable::Members(const Gid& group) const {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return {};
  return found->second;
}

bool MulticastTable::IsMember(const QueuePair& qp) const {
  return std::ranges::any_of(groups_, [&](const auto& group) {
    return std::ranges::find(group.second, &qp) != group.second.end();
  });
}

std::vector<Gid> MulticastTable::GroupsOf(const QueuePair& qp) const {
  std::vector<Gid> groups;
  for (const auto& entry : groups_) {
    const auto& queue_pairs = entry.second;
    if (std::ranges::count(queue_pairs, &qp) != 0) groups.push_back(entry.first);
  }
  return groups;
}

}  // namespace uroce::transport
