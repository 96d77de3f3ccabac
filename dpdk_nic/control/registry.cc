#include "dpdk_nic/control/registry.h"

#include <algorithm>
#include <cerrno>

namespace uroce::nic::control {
namespace {

using transport::Time;

Registry::Pair PairOf(Block a, Block b) { return {std::min(a, b), std::max(a, b)}; }

Block Following(Block block) { return block == kLastBlock ? kFirstBlock : block + 1; }

}  // namespace

Registry::Registry(Limits limits, ClaimHolder holder_of_block, uint64_t random)
    : limits_(limits),
      holder_of_block_(std::move(holder_of_block)),
      next_block_(kFirstBlock + static_cast<Block>(random % kMaxClients)) {
  quarantined_until_.fill(Time{INT64_MIN});
}

Registry::Admission Registry::Attach(Time now, pid_t pid, uid_t uid, Block resumed) {
  const auto user = clients_of_user_.find(uid);
  if (user != clients_of_user_.end() && user->second >= limits_.clients_per_user) {
    return {.error = EDQUOT};
  }
  Block block = resumed;
  if (resumed == 0) {
    block = TakeFreeBlock(now);
    if (block == 0) return {.error = ENOSPC};
  } else if (clients_.count(resumed) != 0 || !Holds(pid, resumed)) {
    return {.error = ESTALE};
  }
  ++clients_of_user_[uid];
  // Whom one that has been here before is linked with is not known.
  clients_[block] = {.pid = pid, .uid = uid, .attached_at = now, .was_linked = resumed != 0};
  return {.block = block};
}

bool Registry::Holds(pid_t pid, Block block) const {
  // A process that we cannot name, as it is in another namespace, has the id 0.
  return pid > 0 && block >= kFirstBlock && block <= kLastBlock && holder_of_block_(block) == pid;
}

// Next-fit: the blocks that were given back last are the last to be used again. 0 if none is free.
Block Registry::TakeFreeBlock(Time now) {
  for (uint32_t tried = 0; tried < kMaxClients; ++tried) {
    const Block block = next_block_;
    next_block_ = Following(block);
    if (clients_.count(block) != 0 || now < quarantined_until_[block]) continue;
    if (holder_of_block_(block) == 0) return block;
    // A process that has not come back to us yet. Looking costs system calls, which those who
    // claim what was not given to them could make us spend for every client that comes.
    quarantined_until_[block] = now + kQuarantine;
  }
  return 0;
}

void Registry::Detach(Time now, Block block) {
  const auto found = clients_.find(block);
  if (found == clients_.end()) return;
  CloseLink(PairOf(block, kSwitchBlock));
  for (const auto& [other, client] : clients_) CloseLink(PairOf(block, other));

  // Programs that only look at the device come and go in numbers; nobody was told of theirs.
  if (found->second.was_linked) quarantined_until_[block] = now + kQuarantine;
  const auto user = clients_of_user_.find(found->second.uid);
  if (--user->second == 0) clients_of_user_.erase(user);
  clients_.erase(found);
}

ErrnoValue Registry::OpenLink(Block asker, Block other) {
  if (asker == other) return EINVAL;
  Client& client = clients_.at(asker);
  const auto peer = clients_.find(other);
  if (peer == clients_.end() && other != kSwitchBlock) return EHOSTUNREACH;

  const Pair pair = PairOf(asker, other);
  if (const auto known = links_.find(pair); known != links_.end()) {
    Link& link = known->second;
    if (link.asker != asker && !link.other_was_refused) {
      link.other_was_refused = true;
      return EALREADY;
    }
    if (link.asker != asker && !HasRoomForLink(client)) return ENOSPC;
    CloseLink(pair);
  } else if (!HasRoomForLink(client)) {
    return ENOSPC;
  }
  links_[pair] = {.asker = asker};
  ++client.links_asked_for;
  client.was_linked = true;
  if (peer != clients_.end()) peer->second.was_linked = true;
  return 0;
}

bool Registry::HasRoomForLink(const Client& client) const {
  return client.links_asked_for < limits_.links_per_client;
}

void Registry::CloseLink(const Pair& pair) {
  const auto link = links_.find(pair);
  if (link == links_.end()) return;
  --clients_.at(link->second.asker).links_asked_for;
  links_.erase(link);
}

}  // namespace uroce::nic::control
