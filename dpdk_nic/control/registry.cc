#include "dpdk_nic/control/registry.h"

#include <algorithm>
#include <cerrno>

namespace uroce::nic::control {
namespace {

using transport::Time;

Registry::Pair PairOf(Block a, Block b) { return {std::min(a, b), std::max(a, b)}; }

// Compares two numbers that are counted up, and that may wrap.
bool IsAfter(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) > 0; }

// How often the blocks of a user with too many are recounted.
constexpr transport::Duration kRecountInterval = transport::Milliseconds(1'000);

Block Following(Block block) { return block == kLastBlock ? kFirstBlock : block + 1; }

}  // namespace

Registry::Registry(Limits limits, ClaimOwner owner_of_block, uint64_t random)
    : limits_(limits),
      owner_of_block_(std::move(owner_of_block)),
      next_block_(kFirstBlock + static_cast<Block>(random % kMaxClients)) {
  quarantined_until_.fill(Time{INT64_MIN});
}

Registry::Admission Registry::Attach(Time now, pid_t pid, uid_t uid, Block resumed) {
  Block block = resumed;
  if (resumed == 0) {
    ReclaimAbsentBlocks();
    if (HasTooMany(now, uid)) return {.error = EDQUOT};
    block = TakeFreeBlock(now);
    if (block == 0) return {.error = ENOSPC};
  } else if (block < kFirstBlock || block > kLastBlock || clients_.count(block) != 0) {
    return {.error = ESTALE};
  }
  if (const auto absent = absent_.find(block); absent != absent_.end()) {
    Return(block, absent->second);
  }
  Charge(uid);
  // The links of a process that resumes are not known: it may have some.
  clients_[block] = {.pid = pid, .uid = uid, .attached_at = now, .was_linked = resumed != 0};
  return {.block = block};
}

// A recount costs system calls, so a user at the limit is recounted at intervals only.
bool Registry::HasTooMany(Time now, uid_t uid) {
  const auto found = users_.find(uid);
  if (found == users_.end() || found->second.blocks < limits_.clients_per_user) return false;
  if (now < found->second.next_recount) return true;
  found->second.next_recount = now + kRecountInterval;
  for (auto absent = absent_.begin(); absent != absent_.end();) {
    const auto [block, user] = *absent++;
    if (user == uid && !owner_of_block_(block)) Return(block, user);
  }
  const auto recounted = users_.find(uid);
  return recounted != users_.end() && recounted->second.blocks >= limits_.clients_per_user;
}

// Checks a few absent blocks in turn, so that ended processes are forgotten faster than new ones
// attach.
void Registry::ReclaimAbsentBlocks() {
  constexpr int kLooks = 4;
  for (int i = 0; i < kLooks && !absent_.empty(); ++i) {
    auto absent = absent_.lower_bound(next_absent_);
    if (absent == absent_.end()) absent = absent_.begin();
    const auto [block, user] = *absent;
    next_absent_ = block + 1;
    if (!owner_of_block_(block)) Return(block, user);
  }
}

void Registry::Discharge(uid_t uid) {
  const auto user = users_.find(uid);
  if (--user->second.blocks == 0) users_.erase(user);
}

void Registry::Return(Block block, uid_t uid) {
  absent_.erase(block);
  Discharge(uid);
}

// Next-fit: the blocks that were given back last are the last to be used again. 0 if none is free.
Block Registry::TakeFreeBlock(Time now) {
  for (uint32_t tried = 0; tried < kMaxClients; ++tried) {
    const Block block = next_block_;
    next_block_ = Following(block);
    if (clients_.count(block) != 0 || now < quarantined_until_[block]) continue;
    const auto owner = owner_of_block_(block);
    if (!owner) return block;
    // The owner has not resumed yet. The check costs system calls, so it is made once a minute.
    quarantined_until_[block] = now + kQuarantine;
    if (absent_.emplace(block, *owner).second) Charge(*owner);
  }
  return 0;
}

void Registry::Detach(Time now, Block block) {
  const auto found = clients_.find(block);
  if (found == clients_.end()) return;
  std::erase_if(offers_earned_at_, [block](const auto& entry) {
    return entry.first.first == block || entry.first.second == block;
  });
  CloseLink(PairOf(block, kSwitchBlock));
  for (const auto& [other, client] : clients_) CloseLink(PairOf(block, other));

  // Without links no peer knows its QPNs: programs that only query the device come in numbers.
  if (found->second.was_linked) quarantined_until_[block] = now + kQuarantine;
  // The claim may live on; then it still counts for its user.
  absent_.emplace(block, found->second.uid);
  clients_.erase(found);
}

ErrnoValue Registry::MayLink(Time now, Block asker, Block other, uint32_t offers_received) const {
  if (asker == other) return EINVAL;
  if (other != kSwitchBlock && clients_.count(other) == 0) return EHOSTUNREACH;
  const auto link = links_.find(PairOf(asker, other));
  const bool is_known = link != links_.end();
  const bool is_charged = is_known && link->second.asker == asker;
  if (is_known && !is_charged && IsAfter(link->second.offer, offers_received)) return EALREADY;
  const auto earned_at = offers_earned_at_.find({asker, other});
  const transport::Duration most = limits_.offer_interval * (limits_.offers_at_once - 1);
  if (earned_at != offers_earned_at_.end() && earned_at->second - now > most) return EAGAIN;
  const bool has_room = clients_.at(asker).links_asked_for < limits_.links_per_client;
  return is_charged || has_room ? 0 : ENOSPC;
}

bool Registry::IsUnknown(Time now, Block block) const {
  return block >= kFirstBlock && block <= kLastBlock && clients_.count(block) == 0 &&
         absent_.count(block) == 0 && now >= quarantined_until_[block] && !owner_of_block_(block);
}

void Registry::AddLink(Time now, Block asker, Block other) {
  Time& earned_at = offers_earned_at_[{asker, other}];
  earned_at = std::max(earned_at, now) + limits_.offer_interval;
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
