#include "dpdk_nic/port/fabric/fabric_neighbors.h"

namespace uroce::nic {
namespace {

using transport::Duration;
using transport::Gid;
using transport::MacAddress;
using transport::Time;

// uroced repeats its own query as often; this repeats questions that did not reach uroced.
constexpr Duration kAskAgain = transport::Milliseconds(1'000);

// More hosts than a process talks to at a time. When there are more, all are asked for anew.
constexpr size_t kMaxEntries = 4'096;

}  // namespace

FabricNeighbors::FabricNeighbors(FabricPort& port) : port_(port) {
  port_.SetNeighborSink([this](const control::Neighbor& news) { OnChange(news); });
}

FabricNeighbors::~FabricNeighbors() { port_.SetNeighborSink({}); }

std::optional<MacAddress> FabricNeighbors::Resolve(Time now, const Gid& gid) {
  if (gid.IsMulticast()) port_.NameGroup(gid);
  if (!port_.fabric().has_wire || gid.IsMulticast()) return MacAddressFor(gid);
  if (port_.IsLocal(gid)) return port_.mac();
  port_.OpenWire();

  const auto found = entries_.find(gid);
  if (found != entries_.end()) {
    const Entry& entry = found->second;
    const bool is_asked =
        entry.attachment == port_.attachments() && now - entry.asked_at < kAskAgain;
    if (entry.mac || is_asked) return entry.mac;
  } else {
    ForgetIfFull();
  }
  entries_[gid] = {.mac = std::nullopt, .asked_at = now, .attachment = port_.attachments()};
  port_.AskForNeighbor(gid);
  return std::nullopt;
}

void FabricNeighbors::OnChange(const control::Neighbor& news) {
  if (news.is_known == 0) {
    if (const auto found = entries_.find(news.gid); found != entries_.end()) {
      found->second.mac.reset();
    }
    return;
  }
  if (!entries_.contains(news.gid)) ForgetIfFull();
  Entry& entry = entries_[news.gid];
  if (entry.mac == news.mac) return;
  entry.mac = news.mac;
  if (changes_.size() == kMaxEntries) changes_.pop_front();
  changes_.push_back({.gid = news.gid, .mac = news.mac});
}

void FabricNeighbors::ForgetIfFull() {
  if (entries_.size() >= kMaxEntries) entries_.clear();
}

std::optional<LinkLayer::Neighbor> FabricNeighbors::TakeChange() {
  if (changes_.empty()) return std::nullopt;
  const Neighbor change = changes_.front();
  changes_.pop_front();
  return change;
}

}  // namespace uroce::nic
