#include "dpdk_nic/switch/service_table.h"

#include <algorithm>
#include <cerrno>

namespace uroce::nic {
namespace {

using control::Block;
using control::ErrnoValue;
using control::kSwitchBlock;
using control::Listen;
using control::ServiceClaim;
using transport::Gid;

constexpr Gid kAllOfIpv4 = Gid::FromIpv4({0, 0, 0, 0});

// How closely a claim names an address; 0: not at all.
int MatchOf(const ServiceClaim& claim, const Gid& address) {
  if (claim.address == address) return 3;
  if (claim.address == kAllOfIpv4) return address.IsIpv4Mapped() ? 2 : 0;
  if (!claim.address.IsZero()) return 0;
  if (claim.only_ipv6 != 0) return address.IsIpv4Mapped() ? 0 : 2;
  return 1;
}

// Whether some address belongs to both claims, which are for the same service.
bool Overlap(const ServiceClaim& a, const ServiceClaim& b) {
  const auto is_all_of_ipv6 = [](const ServiceClaim& c) {
    return c.address.IsZero() && c.only_ipv6 != 0;
  };
  if (is_all_of_ipv6(a) && is_all_of_ipv6(b)) return true;
  return MatchOf(a, b.address) != 0 || MatchOf(b, a.address) != 0;
}

}  // namespace

ErrnoValue ServiceTable::Add(Block block, const Listen& wanted) {
  const auto found = services_.find(wanted.claim.service_id);
  if (found != services_.end()) {
    for (const Entry& other : found->second) {
      const bool is_shared = wanted.shares != 0 && other.service.shares != 0;
      if (other.block == block || is_shared) continue;
      if (Overlap(other.service.claim, wanted.claim)) return EADDRINUSE;
    }
  }
  ++additions_;
  if (Entry* const present = Find(block, wanted.claim)) {
    present->service = wanted;
    return 0;
  }
  std::vector<ServiceClaim>& claims = claims_[block];
  if (claims.size() == kMaxClaims) return ENOSPC;
  claims.push_back(wanted.claim);
  services_[wanted.claim.service_id].push_back({block, wanted});
  return 0;
}

void ServiceTable::Remove(Block block, const ServiceClaim& claim) {
  if (Find(block, claim) == nullptr) return;
  const auto service = services_.find(claim.service_id);
  std::erase_if(service->second, [&](const Entry& entry) {
    return entry.block == block && entry.service.claim == claim;
  });
  if (service->second.empty()) services_.erase(service);
  const auto claims = claims_.find(block);
  std::erase(claims->second, claim);
  if (claims->second.empty()) claims_.erase(claims);
}

void ServiceTable::Remove(Block block) {
  const auto found = claims_.find(block);
  if (found == claims_.end()) return;
  const std::vector<ServiceClaim> claims = found->second;
  for (const ServiceClaim& claim : claims) Remove(block, claim);
}

ServiceTable::Entry* ServiceTable::Find(Block block, const ServiceClaim& claim) {
  const auto service = services_.find(claim.service_id);
  if (service == services_.end()) return nullptr;
  const auto found = std::find_if(
      service->second.begin(), service->second.end(),
      [&](const Entry& entry) { return entry.block == block && entry.service.claim == claim; });
  return found == service->second.end() ? nullptr : &*found;
}

Block ServiceTable::ListenerOf(transport::cm::ServiceId service, const Gid& address) const {
  const auto found = services_.find(service.value);
  if (found == services_.end()) return kSwitchBlock;
  Block best = kSwitchBlock;
  int best_match = 0;
  for (const Entry& entry : found->second) {
    if (entry.service.listens == 0) continue;
    const int match = MatchOf(entry.service.claim, address);
    if (match <= best_match) continue;
    best_match = match;
    best = entry.block;
  }
  return best;
}

bool ServiceTable::Has(Block block, transport::cm::ServiceId service) const {
  const auto found = services_.find(service.value);
  return found != services_.end() &&
         std::any_of(found->second.begin(), found->second.end(),
                     [&](const Entry& entry) { return entry.block == block; });
}

size_t ServiceTable::ClaimsOf(Block block) const {
  const auto found = claims_.find(block);
  return found == claims_.end() ? 0 : found->second.size();
}

}  // namespace uroce::nic
