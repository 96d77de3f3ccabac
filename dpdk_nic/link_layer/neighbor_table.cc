#include "dpdk_nic/link_layer/neighbor_table.h"

#include <algorithm>
#include <utility>

namespace uroce::nic {
namespace {

using transport::Duration;
using transport::Gid;
using transport::kNever;
using transport::MacAddress;
using transport::Time;

constexpr size_t kEthernetHeaderBytes = 14;
constexpr size_t kEthertypeOffset = 12;
// Longer than any neighbour message with sensible options.
constexpr size_t kMaxParsedBytes = 256;

bool IsGroupMac(const MacAddress& mac) { return (mac[0] & 1) != 0; }

ArpPacket::Ipv4Address Ipv4Of(const Gid& gid) {
  return {gid.bytes[12], gid.bytes[13], gid.bytes[14], gid.bytes[15]};
}

}  // namespace

NeighborTable::NeighborTable(Config config) : config_(std::move(config)) {
  for (const LocalAddress& address : config_.addresses) Announce(address.ip);
}

void NeighborTable::SetAddresses(std::vector<LocalAddress> addresses) {
  for (const LocalAddress& address : addresses) {
    if (!IsOurs(address.ip)) Announce(address.ip);
  }
  config_.addresses = std::move(addresses);
}

bool NeighborTable::OnFrame(Time now, std::span<const uint8_t> frame) {
  if (frame.size() < kEthernetHeaderBytes) return false;
  // One copy, so that nothing changes between the checks and the use.
  std::array<uint8_t, kMaxParsedBytes> bytes;
  const size_t length = std::min(frame.size(), bytes.size());
  std::copy_n(frame.begin(), length, bytes.begin());
  const std::span<const uint8_t> copy(bytes.data(), length);

  if (copy[kEthertypeOffset] == kArpEthertype >> 8 &&
      copy[kEthertypeOffset + 1] == (kArpEthertype & 0xff)) {
    if (const auto packet = ParseArp(copy)) OnArp(now, *packet);
    return true;
  }
  const auto message = ParseNeighborMessage(copy);
  if (!message) return false;
  if (message->type == NeighborMessage::Type::kSolicitation) {
    OnSolicitation(now, *message);
  } else {
    OnAdvertisement(now, *message);
  }
  return true;
}

// The merging rule of RFC 826, except that an unsolicited reply adds no entry.
void NeighborTable::OnArp(Time now, const ArpPacket& packet) {
  const Gid sender = Gid::FromIpv4(packet.sender_ip);
  if (IsOurs(sender) || IsGroupMac(packet.sender_mac)) return;
  const bool asks_for_us =
      packet.operation == ArpPacket::Operation::kRequest && IsOurs(Gid::FromIpv4(packet.target_ip));
  const bool sender_has_address = packet.sender_ip != ArpPacket::Ipv4Address{};  // RFC 5227 probe
  if (sender_has_address && (asks_for_us || Find(sender) != nullptr)) {
    Learn(now, sender, packet.sender_mac);
  }
  if (!asks_for_us) return;
  ArpPacket reply;
  reply.operation = ArpPacket::Operation::kReply;
  reply.sender_mac = config_.mac;
  reply.sender_ip = packet.target_ip;
  reply.target_mac = packet.sender_mac;
  reply.target_ip = packet.sender_ip;
  Queue(reply, packet.sender_mac);
}

void NeighborTable::OnSolicitation(Time now, const NeighborMessage& message) {
  if (!IsOurs(message.target) || IsOurs(message.source)) return;
  const bool detects_duplicates = message.source.IsZero();
  NeighborMessage reply;
  reply.type = NeighborMessage::Type::kAdvertisement;
  reply.source = message.target;
  reply.destination = detects_duplicates ? kAllNodesGid : message.source;
  reply.target = message.target;
  reply.link_layer_address = config_.mac;
  reply.is_solicited = !detects_duplicates;
  reply.overrides = true;
  if (detects_duplicates) {
    Queue(reply, Ipv6MulticastMac(kAllNodesGid));
    return;
  }
  if (message.link_layer_address && !IsGroupMac(*message.link_layer_address)) {
    Learn(now, message.source, *message.link_layer_address);
  }
  // An asker that leaves out the option knows our address; the table may have the asker's.
  const Entry* asker = Find(message.source);
  if (asker == nullptr || !asker->mac) return;
  Queue(reply, *asker->mac);
}

// RFC 4861, 7.2.5.
void NeighborTable::OnAdvertisement(Time now, const NeighborMessage& message) {
  Entry* entry = Find(message.target);
  if (entry == nullptr) return;
  if (!message.link_layer_address) {
    if (entry->mac && message.is_solicited) Confirm(now, entry);
    return;
  }
  if (IsGroupMac(*message.link_layer_address)) return;
  const bool in_use = entry->state == State::kReachable || entry->state == State::kProbing;
  if (in_use && !message.overrides && entry->mac != message.link_layer_address) return;
  Learn(now, message.target, *message.link_layer_address);
}

NeighborTable::Entry* NeighborTable::Find(const Gid& gid) {
  const auto found = entries_.find(gid);
  return found == entries_.end() ? nullptr : &found->second;
}

NeighborTable::Entry& NeighborTable::FindOrAdd(Time now, const Gid& gid) {
  Entry* found = Find(gid);
  if (found != nullptr) return *found;
  if (entries_.size() == kMaxNeighbors) {
    entries_.erase(std::min_element(
        entries_.begin(), entries_.end(),
        [](const auto& a, const auto& b) { return a.second.last_event < b.second.last_event; }));
  }
  Entry& entry = entries_[gid];
  entry.last_event = now;
  return entry;
}

void NeighborTable::Learn(Time now, const Gid& gid, const MacAddress& mac) {
  Entry& entry = FindOrAdd(now, gid);
  if (entry.mac != mac) {
    entry.mac = mac;
    changes_.push_back({gid, mac});
    for (const auto& [destination, gateway] : routes_) {
      if (gateway == gid) changes_.push_back({destination, mac});
    }
  }
  Confirm(now, &entry);
}

void NeighborTable::Confirm(Time now, Entry* entry) {
  entry->state = State::kReachable;
  entry->asked = 0;
  entry->last_event = now;
  entry->deadline = now + kReachableTime;
  UpdateNextDeadline();
}

std::optional<MacAddress> NeighborTable::Resolve(Time now, const Gid& gid) {
  if (const auto group = MulticastMac(gid)) return group;
  if (IsOurs(gid)) return config_.mac;
  const Gid hop = config_.next_hop ? config_.next_hop(gid) : gid;
  if (hop != gid) {
    if (routes_.size() == kMaxRoutes) routes_.clear();
    routes_[gid] = hop;
  }
  Entry* entry = Find(hop);
  if (entry == nullptr) {
    StartAsking(now, hop, &FindOrAdd(now, hop));
    return std::nullopt;
  }
  entry->last_event = now;
  switch (entry->state) {
    case State::kReachable:
    case State::kProbing:
      return entry->mac;
    case State::kIncomplete:
      return std::nullopt;
    case State::kFailed:
      if (now >= entry->deadline) StartAsking(now, hop, entry);
      return std::nullopt;
  }
  return std::nullopt;
}

void NeighborTable::StartAsking(Time now, const Gid& gid, Entry* entry) {
  entry->state = State::kIncomplete;
  entry->asked = 1;
  entry->deadline = now + kFirstAskInterval;
  Ask(gid, std::nullopt);
  UpdateNextDeadline();
}

void NeighborTable::OnDeadline(Time now) {
  for (auto& [gid, entry] : entries_) {
    if (entry.state != State::kFailed && entry.deadline <= now) Expire(now, gid, &entry);
  }
  UpdateNextDeadline();
}

void NeighborTable::Expire(Time now, const Gid& gid, Entry* entry) {
  const bool alone = entry->state != State::kIncomplete;
  if (entry->asked >= (alone ? kMaxProbes : kMaxAsks)) {
    entry->state = State::kFailed;
    entry->deadline = now + kFailedTime;
    return;
  }
  Ask(gid, alone ? entry->mac : std::nullopt);
  if (alone) entry->state = State::kProbing;
  entry->deadline = now + (alone ? kProbeInterval : kFirstAskInterval * (1 << entry->asked));
  ++entry->asked;
}

// A failed neighbour has no timer: Resolve looks at its deadline.
void NeighborTable::UpdateNextDeadline() {
  next_deadline_ = kNever;
  for (const auto& [gid, entry] : entries_) {
    if (entry.state != State::kFailed) next_deadline_ = std::min(next_deadline_, entry.deadline);
  }
}

void NeighborTable::Ask(const Gid& gid, const std::optional<MacAddress>& alone) {
  if (gid.IsIpv4Mapped()) {
    AskByArp(gid, alone.value_or(kBroadcastMac));
  } else {
    AskByDiscovery(gid, alone);
  }
}

void NeighborTable::AskByArp(const Gid& gid, const MacAddress& destination) {
  ArpPacket request;
  request.sender_mac = config_.mac;
  request.sender_ip = Ipv4Of(SourceFor(gid));
  request.target_ip = Ipv4Of(gid);
  Queue(request, destination);
}

void NeighborTable::AskByDiscovery(const Gid& gid, const std::optional<MacAddress>& alone) {
  NeighborMessage solicitation;
  solicitation.source = SourceFor(gid);
  solicitation.destination = alone ? gid : SolicitedNodeGid(gid);
  solicitation.target = gid;
  solicitation.link_layer_address = config_.mac;
  Queue(solicitation, alone ? *alone : Ipv6MulticastMac(solicitation.destination));
}

// RFC 5227, 2.3 and RFC 4861, 7.2.6.
void NeighborTable::Announce(const Gid& gid) {
  if (gid.IsIpv4Mapped()) {
    ArpPacket announcement;
    announcement.sender_mac = config_.mac;
    announcement.sender_ip = Ipv4Of(gid);
    announcement.target_ip = Ipv4Of(gid);
    Queue(announcement, kBroadcastMac);
    return;
  }
  NeighborMessage announcement;
  announcement.type = NeighborMessage::Type::kAdvertisement;
  announcement.source = gid;
  announcement.destination = kAllNodesGid;
  announcement.target = gid;
  announcement.link_layer_address = config_.mac;
  announcement.overrides = true;
  Queue(announcement, Ipv6MulticastMac(kAllNodesGid));
}

void NeighborTable::Queue(const ArpPacket& packet, const MacAddress& destination) {
  Frame* frame = AddOutgoing();
  if (frame != nullptr) frame->length = EmitArp(packet, destination, frame->bytes);
}

void NeighborTable::Queue(const NeighborMessage& message, const MacAddress& destination) {
  Frame* frame = AddOutgoing();
  if (frame == nullptr) return;
  frame->length = EmitNeighborMessage(message, config_.mac, destination, frame->bytes);
}

// nullptr if the queue is full: questions are retried.
NeighborTable::Frame* NeighborTable::AddOutgoing() {
  if (outgoing_.size() == kMaxQueuedFrames) return nullptr;
  return &outgoing_.emplace_back();
}

size_t NeighborTable::PollTransmit(Time /*now*/, std::span<uint8_t> out) {
  if (outgoing_.empty()) return 0;
  const Frame& frame = outgoing_.front();
  std::copy_n(frame.bytes.begin(), frame.length, out.begin());
  const size_t length = frame.length;
  outgoing_.pop_front();
  return length;
}

std::optional<LinkLayer::Neighbor> NeighborTable::TakeChange() {
  if (changes_.empty()) return std::nullopt;
  const Neighbor change = changes_.front();
  changes_.pop_front();
  return change;
}

bool NeighborTable::IsOurs(const Gid& gid) const {
  return std::any_of(config_.addresses.begin(), config_.addresses.end(),
                     [&](const LocalAddress& address) { return address.ip == gid; });
}

// Without an IPv4 address of ours the unspecified one: an ARP probe, which is answered as well.
Gid NeighborTable::SourceFor(const Gid& destination) const {
  if (const LocalAddress* source = nic::SourceFor(config_.addresses, destination)) {
    return source->ip;
  }
  return destination.IsIpv4Mapped() ? Gid::FromIpv4({}) : Gid::LinkLocal(config_.mac);
}

}  // namespace uroce::nic
