#include "dpdk_nic/link_layer/kernel_neighbors.h"

#include <algorithm>
#include <utility>

namespace uroce::nic {

using transport::Gid;
using transport::kNever;
using transport::MacAddress;
using transport::Time;

KernelNeighbors::KernelNeighbors(std::unique_ptr<KernelTables> tables, const MacAddress& mac,
                                 std::vector<LocalAddress> addresses)
    : tables_(std::move(tables)),
      mac_(mac),
      addresses_(std::move(addresses)),
      own_({.mac = mac, .addresses = {}, .next_hop = [this](const Gid& destination) {
              return tables_->NextHop(destination);
            }}) {
  DivideAddresses();
}

// Divides our addresses between the kernel and `own_`.
void KernelNeighbors::DivideAddresses() {
  const std::vector<LocalAddress> of_kernel = tables_->Addresses();
  std::vector<LocalAddress> of_own;
  kernel_addresses_.clear();
  for (LocalAddress& address : addresses_) {
    const auto found =
        std::find_if(of_kernel.begin(), of_kernel.end(),
                     [&](const LocalAddress& candidate) { return candidate.ip == address.ip; });
    if (found == of_kernel.end()) {
      of_own.push_back(address);
      continue;
    }
    kernel_addresses_.push_back(address.ip);
    if (address.prefix_bits == 0) address.prefix_bits = found->prefix_bits;
  }
  own_.SetAddresses(std::move(of_own));
}

bool KernelNeighbors::IsOurs(const Gid& gid) const {
  return std::any_of(addresses_.begin(), addresses_.end(),
                     [&](const LocalAddress& address) { return address.ip == gid; });
}

bool KernelNeighbors::IsForKernel(const Gid& destination) const {
  const LocalAddress* source = SourceFor(addresses_, destination);
  return source != nullptr && std::find(kernel_addresses_.begin(), kernel_addresses_.end(),
                                        source->ip) != kernel_addresses_.end();
}

// A frame about neighbours may change the kernel's table, too, as soon as the kernel reads it.
bool KernelNeighbors::OnFrame(Time now, std::span<const uint8_t> frame) {
  if (!own_.OnFrame(now, frame)) return false;
  next_check_ = std::min(next_check_, now + kKernelDelay);
  return true;
}

std::optional<MacAddress> KernelNeighbors::Resolve(Time now, const Gid& gid) {
  if (const auto group = MulticastMac(gid)) return group;
  if (IsOurs(gid)) return mac_;
  if (!IsForKernel(gid)) return own_.Resolve(now, gid);
  const bool known = destinations_.contains(gid);
  Destination& destination = FindOrAdd(now, gid);
  destination.last_event = now;
  if (!known || !destination.mac) Look(now, gid, &destination);
  return destination.mac;
}

KernelNeighbors::Destination& KernelNeighbors::FindOrAdd(Time now, const Gid& gid) {
  const auto found = destinations_.find(gid);
  if (found != destinations_.end()) return found->second;
  if (destinations_.size() == kMaxDestinations) {
    destinations_.erase(std::min_element(
        destinations_.begin(), destinations_.end(),
        [](const auto& a, const auto& b) { return a.second.last_event < b.second.last_event; }));
  }
  Destination& added = destinations_[gid];
  added.last_event = now;
  return added;
}

void KernelNeighbors::Look(Time now, const Gid& gid, Destination* destination) {
  destination->next_hop = tables_->NextHop(gid);
  const KernelTables::Neighbor state = tables_->Find(destination->next_hop);
  Apply(state, gid, destination);
  const bool may_ask = !destination->asked || now >= *destination->asked + kAskInterval;
  if (!state.is_confirmed && may_ask) {
    tables_->Ask(destination->next_hop);
    destination->asked = now;
  }
  destination->recheck = now + kRecheckInterval;
  next_recheck_ = std::min(next_recheck_, destination->recheck);
}

void KernelNeighbors::Apply(const KernelTables::Neighbor& state, const Gid& gid,
                            Destination* destination) {
  destination->mac = state.mac;
  if (!state.mac || destination->told_mac == state.mac) return;
  destination->told_mac = state.mac;
  changes_.push_back({gid, *state.mac});
}

Time KernelNeighbors::NextDeadline() const {
  return std::min({next_check_, next_recheck_, own_.NextDeadline()});
}

void KernelNeighbors::OnDeadline(Time now) {
  if (own_.NextDeadline() <= now) own_.OnDeadline(now);
  if (next_check_ <= now) NextChange(now);
  if (next_recheck_ <= now) Recheck(now);
}

void KernelNeighbors::NextChange(Time now) {
  for (int i = 0; i < kMaxNewsAtOnce; ++i) {
    const auto news = tables_->NextChange();
    if (!news) {
      next_check_ = now + kCheckInterval;
      return;
    }
    OnChange(now, *news);
  }
  next_check_ = now + kKernelDelay;
}

void KernelNeighbors::OnChange(Time now, const KernelTables::Change& news) {
  using Kind = KernelTables::Change::Kind;
  if (news.kind != Kind::kNeighbor) OnAddresses(now);
  for (auto& [gid, destination] : destinations_) {
    if (news.kind == Kind::kNeighbor && destination.next_hop == news.neighbor) {
      Apply(news.state, gid, &destination);
    }
    if (news.kind == Kind::kGap) destination.recheck = now;
  }
  if (news.kind == Kind::kGap) next_recheck_ = now;
}

void KernelNeighbors::OnAddresses(Time now) {
  DivideAddresses();
  std::erase_if(destinations_, [&](const auto& entry) {
    if (IsForKernel(entry.first)) return false;
    own_.Resolve(now, entry.first);  // a queue pair may still send to it
    return true;
  });
}

// Destinations that do not answer are left alone until the next Resolve.
void KernelNeighbors::Recheck(Time now) {
  int rechecked = 0;
  next_recheck_ = kNever;
  for (auto& [gid, destination] : destinations_) {
    if (destination.recheck <= now && rechecked < kMaxRechecksAtOnce) {
      ++rechecked;
      Look(now, gid, &destination);
      if (!destination.mac) destination.recheck = kNever;
    }
    next_recheck_ = std::min(next_recheck_, destination.recheck);
  }
}

std::optional<LinkLayer::Neighbor> KernelNeighbors::TakeChange() {
  if (changes_.empty()) return own_.TakeChange();
  const Neighbor change = changes_.front();
  changes_.pop_front();
  return change;
}

}  // namespace uroce::nic
