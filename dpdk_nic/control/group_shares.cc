#include "dpdk_nic/control/group_shares.h"

namespace uroce::nic::control {

using transport::Gid;

GroupShares::Verdict GroupShares::MayJoin(Block block, uid_t uid, const Gid& group,
                                          size_t room) const {
  const auto process = processes_.find(block);
  if (process != processes_.end() && process->second.groups.contains(group)) {
    return Verdict::kMayJoin;
  }
  if (GroupsOf(block) >= ProcessLimit(room)) return Verdict::kProcessHasTooMany;
  const auto user = users_.find(uid);
  const bool is_of_user = user != users_.end() && user->second.contains(group);
  if (!is_of_user && GroupsOfUser(uid) >= UserLimit(room)) return Verdict::kUserHasTooMany;
  return Verdict::kMayJoin;
}

void GroupShares::Join(Block block, uid_t uid, const Gid& group) {
  const auto process = processes_.try_emplace(block, Process{uid, {}}).first;
  if (process->second.groups.insert(group).second) ++users_[uid][group];
}

void GroupShares::Leave(Block block, const Gid& group) {
  const auto process = processes_.find(block);
  if (process == processes_.end() || process->second.groups.erase(group) == 0) return;
  const auto user = users_.find(process->second.uid);
  const auto members = user->second.find(group);
  if (--members->second == 0) user->second.erase(members);
  if (user->second.empty()) users_.erase(user);
  if (process->second.groups.empty()) processes_.erase(process);
}

void GroupShares::Remove(Block block) {
  const auto process = processes_.find(block);
  if (process == processes_.end()) return;
  const std::set<Gid> groups = process->second.groups;  // a copy: leaving erases them there
  for (const Gid& group : groups) Leave(block, group);
}

size_t GroupShares::GroupsOf(Block block) const {
  const auto process = processes_.find(block);
  return process == processes_.end() ? 0 : process->second.groups.size();
}

size_t GroupShares::GroupsOfUser(uid_t uid) const {
  const auto user = users_.find(uid);
  return user == users_.end() ? 0 : user->second.size();
}

}  // namespace uroce::nic::control
