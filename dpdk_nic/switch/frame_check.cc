#include "dpdk_nic/switch/frame_check.h"

#include "dpdk_nic/link_layer/link_layer.h"
#include "transport/route.h"

namespace uroce::nic {
namespace {

using control::Block;
using control::kSwitchBlock;
using transport::kMulticastQpn;
using transport::PeerQuery;
using transport::cm::Steering;

constexpr transport::Qpn kSubnetManagementQpn{0};  // never used over Ethernet

bool IsToGroup(const RoceHeaders& headers) { return headers.destination.IsMulticast(); }

// Whether the Ethernet destination fits the IP destination, so that no process reaches more of the
// network by the former than by the latter.
bool DestinationsAgree(const RoceHeaders& headers) {
  constexpr uint8_t kGroupBit = 1;
  if (!IsToGroup(headers)) return (headers.destination_mac[0] & kGroupBit) == 0;
  return headers.destination_mac == MulticastMac(headers.destination);
}

bool IsGroupDatagram(const RoceHeaders& headers) {
  return headers.IsDatagram() && headers.destination_qpn == kMulticastQpn;
}

// A process asks in its own name, so that the answer reaches it, and tells that it runs itself. The
// switch tells all the rest.
SwitchDrop CheckPeerQuery(const RoceHeaders& headers, Block sender) {
  const PeerQuery& query = *headers.peer_query;
  const bool asks = query.kind == PeerQuery::Kind::kQuery &&
                    transport::BlockOfTransaction(query.transaction_id) == sender;
  const bool tells_of_itself = query.kind == PeerQuery::Kind::kAnswer &&
                               query.process == PeerQuery::Process::kRuns &&
                               transport::BlockOf(query.qpn) == sender;
  const bool is_from_management = headers.source_qpn == kManagementQpn;
  return (asks || tells_of_itself) && is_from_management ? SwitchDrop::kNone
                                                         : SwitchDrop::kForeignSource;
}

SwitchDrop CheckManagement(const RoceHeaders& headers, Block sender, const ForwardingTable& table) {
  if (headers.peer_query) return CheckPeerQuery(headers, sender);
  if (!headers.cm) return SwitchDrop::kMalformed;
  const Steering& cm = *headers.cm;
  const bool is_own = cm.sender ? Steering::BlockOf(*cm.sender) == sender
                                : table.services().Has(sender, *cm.service);
  const bool from_management = headers.source_qpn == kManagementQpn;
  return is_own && from_management ? SwitchDrop::kNone : SwitchDrop::kForeignSource;
}

SwitchDrop CheckDatagram(const RoceHeaders& headers, Block sender, const ForwardingTable& table) {
  if (headers.destination_qpn == kSubnetManagementQpn) return SwitchDrop::kNotDeclared;
  if (headers.destination_qpn == kManagementQpn) return CheckManagement(headers, sender, table);
  const bool is_own = transport::BlockOf(headers.source_qpn) == sender;
  return is_own ? SwitchDrop::kNone : SwitchDrop::kForeignSource;
}

bool IsLocal(const RoceHeaders& headers, const WireAddresses* wire) {
  return !IsToGroup(headers) && (wire == nullptr || wire->Has(headers.destination));
}

bool IsManagement(const RoceHeaders& headers) {
  return headers.IsDatagram() && headers.destination_qpn == kManagementQpn;
}

SwitchDrop CheckLocal(const RoceHeaders& headers, Block sender) {
  const Block receiver = transport::BlockOf(headers.destination_qpn);
  const bool may_pass =
      headers.IsDatagram() && ForwardingTable::IsProcess(receiver) && receiver != sender;
  if (!may_pass) return SwitchDrop::kUnknownDestination;
  const bool is_own = transport::BlockOf(headers.source_qpn) == sender;
  return is_own ? SwitchDrop::kNone : SwitchDrop::kForeignSource;
}

Delivery ReceiverOfPeerQuery(const RoceHeaders& headers) {
  const PeerQuery& query = *headers.peer_query;
  const bool is_from_management = headers.source_qpn == kManagementQpn;
  if (!headers.HasUnicastSource() || !is_from_management) return {SwitchDrop::kForeignSource};
  if (query.kind == PeerQuery::Kind::kQuery) return {SwitchDrop::kNone, kSwitchBlock};
  const Block block = transport::BlockOfTransaction(query.transaction_id);
  if (!ForwardingTable::IsProcess(block)) return {SwitchDrop::kUnknownDestination};
  return {SwitchDrop::kNone, block};
}

}  // namespace

void Count(SwitchDrop reason, control::SwitchCounters* counters) {
  switch (reason) {
    case SwitchDrop::kNone:
      return;
    case SwitchDrop::kUnknownDestination:
      ++counters->dropped_unknown_destination;
      return;
    case SwitchDrop::kNotDeclared:
      ++counters->dropped_not_declared;
      return;
    case SwitchDrop::kForeignSource:
      ++counters->dropped_foreign_source;
      return;
    case SwitchDrop::kMalformed:
      ++counters->dropped_malformed;
      return;
    case SwitchDrop::kNoRoom:
      ++counters->dropped_no_room;
      return;
  }
}

SwitchDrop CheckFromProcess(const RoceHeaders& headers, size_t frame_bytes, Block sender,
                            const ForwardingTable& table, const WireAddresses* wire) {
  // No bytes behind the packet, and no opcode that we cannot judge.
  if (headers.packet_end != frame_bytes || !headers.opcode || !DestinationsAgree(headers)) {
    return SwitchDrop::kMalformed;
  }
  if (IsToGroup(headers) && !IsGroupDatagram(headers)) return SwitchDrop::kMalformed;
  if (wire != nullptr && (headers.source_mac != wire->mac || !wire->Has(headers.source))) {
    return SwitchDrop::kForeignSource;
  }
  if (IsLocal(headers, wire)) {
    if (headers.peer_query) return SwitchDrop::kUnknownDestination;
    return IsManagement(headers) ? CheckManagement(headers, sender, table)
                                 : CheckLocal(headers, sender);
  }
  if (headers.IsDatagram()) return CheckDatagram(headers, sender, table);
  const bool is_declared = table.IsDeclared(sender, headers.destination, headers.destination_qpn);
  return is_declared ? SwitchDrop::kNone : SwitchDrop::kNotDeclared;
}

Block ReceiverOfManagement(const RoceHeaders& headers, const ForwardingTable& table) {
  const Steering& cm = *headers.cm;
  return cm.recipient ? Steering::BlockOf(*cm.recipient)
                      : table.services().ListenerOf(*cm.service, headers.destination);
}

std::optional<Block> FindLocalReceiver(const RoceHeaders& headers, const ForwardingTable& table,
                                       const WireAddresses* wire) {
  if (!IsLocal(headers, wire)) return std::nullopt;
  if (IsManagement(headers)) return ReceiverOfManagement(headers, table);
  return transport::BlockOf(headers.destination_qpn);
}

Delivery FindReceiver(const RoceHeaders& headers, const ForwardingTable& table,
                      const WireAddresses& wire) {
  // The source is forged, or the network returns a frame that we sent to a group.
  if (wire.Has(headers.source)) return {SwitchDrop::kForeignSource};
  if (IsToGroup(headers)) {
    return {IsGroupDatagram(headers) ? SwitchDrop::kNone : SwitchDrop::kMalformed};
  }
  if (!wire.Has(headers.destination)) return {SwitchDrop::kUnknownDestination};
  if (headers.destination_qpn == kManagementQpn) {
    if (headers.peer_query) return ReceiverOfPeerQuery(headers);
    if (!headers.cm) return {SwitchDrop::kMalformed};
    return {SwitchDrop::kNone, ReceiverOfManagement(headers, table)};
  }
  const Block block = transport::BlockOf(headers.destination_qpn);
  if (!ForwardingTable::IsProcess(block)) return {SwitchDrop::kUnknownDestination};
  return {SwitchDrop::kNone, block};
}

}  // namespace uroce::nic
