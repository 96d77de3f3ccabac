#include "dpdk_nic/control/registry.h"

#include <algorithm>
#include <cerrno>

namespace uroce::nic::control {
namespace {

using transport::Time;

Registry::Pair PairOf(Block a, Block b) { return {std::min(a, b), std::max(a, b)}; }

// Of two numbers that are counted up, and that may wrap.
bool IsAfter(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) > 0; }

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
  } else if (const ErrnoValue error = MayResume(pid, resumed)) {
    return {.error = error};
  }
  ++clients_of_user_[uid];
  // Whom one that has been here before is linked with is not known.
  clients_[block] = {.pid = pid, .uid = uid, .attached_at = now, .was_linked = resumed != 0};
  return {.block = block};
}

ErrnoValue Registry::MayResume(pid_t pid, Block block) const {
  if (block < kFirstBlock || block > kLastBlock || clients_.count(block) != 0) return ESTALE;
  const pid_t holder = holder_of_block_(block);
  if (holder == kUnknownHolder) return EAGAIN;
  return holder != kNobody && holder == pid ? 0 : ESTALE;
}

// Next-fit: the blocks that were given back last are the last to be used again. 0 if none is free.
Block Registry::TakeFreeBlock(Time now) {
  for (uint32_t tried = 0; tried < kMaxClients; ++tried) {
    const Block block = next_block_;
    next_block_ = Following(block);
    if (clients_.count(block) != 0 || now < quarantined_until_[block]) continue;
    if (holder_of_block_(block) == kNobody) return block;
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

ErrnoValue Registry::MayLink(Block asker, Block other, uint32_t offers_received) const {
  if (asker == other) return EINVAL;
  if (other != kSwitchBlock && clients_.count(other) == 0) return EHOSTUNREACH;
  const auto link = links_.find(PairOf(asker, other));
  const bool is_known = link != links_.end();
  const bool is_charged = is_known && link->second.asker == asker;
  if (is_known && !is_charged && IsAfter(link->second.offer, offers_received)) return EALREADY;
  const bool has_room = clients_.at(asker).links_asked_for < limits_.links_per_client;
  return is_charged || has_room ? 0 : ENOSPC;
}

void Registry::AddLink(Block asker, Block other) {
  const Pair pair = PairOf(asker, other);
  CloseLink(pair);
  Client& client = clients_.at(asker);
  ++client.links_asked_for;
  client.was_linked = true;
  Link& link = links_[pair];
  link.asker = asker;
  if (other == kSwitchBlock) return;
  Client& peer = clients_.at(other);
  peer.was_linked = true;
  link.offer = ++peer.offers_sent;
}

void Registry::CloseLink(const Pair& pair) {
  const auto link = links_.find(pair);
  if (link == links_.end()) return;
  --clients_.at(link->second.asker).links_asked_for;
  links_.erase(link);
}

}  // namespace uroce::nic::control
