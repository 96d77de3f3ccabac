#include "dpdk_nic/switch/forwarding_table.h"

#include <algorithm>
#include <cerrno>
#include <new>

namespace uroce::nic {
namespace {

using control::Block;
using control::ErrnoValue;
using control::kSwitchBlock;
using transport::Gid;
using transport::Qpn;

// Four megabytes if all are used. A million connections make one to a bucket, the sixteen million
// that there can be make sixteen.
constexpr size_t kBuckets = 1 << 20;

template <class T>
void Erase(std::vector<T>* values, const T& value) {
  const auto found = std::find(values->begin(), values->end(), value);
  if (found == values->end()) return;
  *found = values->back();
  values->pop_back();
}

template <class T>
bool Contains(const std::vector<T>& values, const T& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

bool IsHost(const Gid& gid) { return !gid.IsMulticast() && !gid.IsZero(); }

}  // namespace

ForwardingTable::ForwardingTable() : buckets_(kBuckets) {}

bool ForwardingTable::IsIn(Qpn qpn, Block block) {
  return qpn.value <= transport::kMaxQpn && transport::BlockOf(qpn) == block;
}

size_t ForwardingTable::BucketOf(const Gid& gid, Qpn qpn) const {
  return hash_(gid, qpn) % kBuckets;
}

ErrnoValue ForwardingTable::Declare(Block block, const control::Declare& connection) {
  if (!IsIn(connection.local, block)) return EINVAL;
  if (connection.IsForDatagrams()) {
    Forget(block, connection.local);
    return 0;
  }
  const bool has_alternate = !connection.alternate_gid.IsZero();
  const bool has_remote = connection.remote.value < transport::kMulticastQpn.value &&
                          IsHost(connection.remote_gid) &&
                          (!has_alternate || IsHost(connection.alternate_gid));
  if (!has_remote) return EINVAL;
  if (IsOfAnother(block, connection.remote_gid, connection.remote) ||
      (has_alternate && IsOfAnother(block, connection.alternate_gid, connection.remote))) {
    return EBUSY;
  }
  Process& process = processes_[block];
  if (!process.connections) {
    try {
      process.connections = ZeroedPages<Connection>(2 * transport::kMaxQps);
    } catch (const std::bad_alloc&) {
      return ENOMEM;
    }
  }
  const Link place = connection.local.value;
  RemoveBothPaths(connection.local);
  InsertConnection(place, connection.remote_gid, connection.remote);
  if (has_alternate) {
    InsertConnection(place | kAlternate, connection.alternate_gid, connection.remote);
  }
  return 0;
}

void ForwardingTable::Forget(Block block, Qpn local) {
  if (IsIn(local, block) && processes_[block].connections) RemoveBothPaths(local);
}

bool ForwardingTable::IsDeclared(Block block, const Gid& remote_gid, Qpn remote) const {
  return OwnerOf(remote_gid, remote) == block;
}

// Several queue pairs of one process may be connected to the same remote one. The first is as good
// as any.
Block ForwardingTable::OwnerOf(const Gid& remote_gid, Qpn remote) const {
  for (Link place = buckets_[BucketOf(remote_gid, remote)]; place != 0; place = At(place).next) {
    const Connection& connection = At(place);
    if (connection.remote == remote && connection.remote_gid == remote_gid) return BlockOf(place);
  }
  return kSwitchBlock;
}

bool ForwardingTable::IsOfAnother(Block block, const Gid& remote_gid, Qpn remote) const {
  const Block owner = OwnerOf(remote_gid, remote);
  return owner != kSwitchBlock && owner != block;
}

void ForwardingTable::InsertConnection(Link place, const Gid& remote_gid, Qpn remote) {
  Link& first = buckets_[BucketOf(remote_gid, remote)];
  if (first != 0) At(first).previous = place;
  At(place) = {remote_gid, remote, first, 0, 1};
  first = place;
  ++processes_[BlockOf(place)].declared;
}

void ForwardingTable::RemoveConnection(Link place) {
  Connection& connection = At(place);
  if (connection.is_declared == 0) return;
  if (connection.next != 0) At(connection.next).previous = connection.previous;
  if (connection.previous != 0) {
    At(connection.previous).next = connection.next;
  } else {
    buckets_[BucketOf(connection.remote_gid, connection.remote)] = connection.next;
  }
  connection = {};
  --processes_[BlockOf(place)].declared;
}

void ForwardingTable::RemoveBothPaths(Qpn local) {
  RemoveConnection(local.value);
  RemoveConnection(local.value | kAlternate);
}

ErrnoValue ForwardingTable::JoinGroup(Block block, const Gid& group) {
  std::vector<Gid>& joined = processes_[block].groups;
  if (!group.IsMulticast()) return EINVAL;
  if (Contains(joined, group)) return 0;
  if (joined.size() == kMaxGroups) return ENOSPC;
  groups_[group].push_back(block);
  joined.push_back(group);
  return 0;
}

void ForwardingTable::LeaveGroup(Block block, const Gid& group) {
  Erase(&processes_[block].groups, group);
  const auto found = groups_.find(group);
  if (found == groups_.end()) return;
  Erase(&found->second, block);
  if (found->second.empty()) groups_.erase(found);
}

std::span<const Block> ForwardingTable::Members(const Gid& group) const {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return {};
  return found->second;
}

void ForwardingTable::Remove(Block block) {
  Process& process = processes_[block];
  for (uint32_t i = 0; process.declared != 0; ++i) {
    RemoveBothPaths(Qpn{block * transport::kMaxQps + i});
  }
  while (!process.groups.empty()) {
    const Gid group = process.groups.back();  // a copy: leaving erases it there
    LeaveGroup(block, group);
  }
  services_.Remove(block);
  process = {};
}

control::SwitchUsage ForwardingTable::usage(Block block) const {
  const Process& process = processes_[block];
  return {process.declared, static_cast<uint32_t>(process.groups.size()),
          static_cast<uint32_t>(services_.ClaimsOf(block))};
}

}  // namespace uroce::nic
