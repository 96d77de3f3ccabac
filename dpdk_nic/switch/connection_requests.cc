#include "dpdk_nic/switch/connection_requests.h"

#include <algorithm>
#include <utility>

#include "transport/mad_frame.h"
#include "transport/wire/icrc.h"

namespace uroce::nic {
namespace {

using control::Block;
using control::kSwitchBlock;
using transport::Gid;
using transport::Qpn;
using transport::Time;
using transport::cm::CommunicationId;

// Whether both are the same request, sent twice.
bool IsSame(const RoceHeaders& a, const RoceHeaders& b) {
  return a.source == b.source && a.destination == b.destination && a.cm->sender == b.cm->sender &&
         a.cm->service == b.cm->service;
}

}  // namespace

bool ConnectionRequests::Hold(Time now, Block sender, const RoceHeaders& headers,
                              std::vector<uint8_t> frame) {
  const bool is_from_wire = sender == kSwitchBlock;
  size_t of_source = 0;
  size_t of_wire = 0;
  for (const Held& held : held_) {
    if (held.sender != sender) continue;
    if (IsSame(held.headers, headers)) return true;
    if (is_from_wire) ++of_wire;
    if (!is_from_wire || held.headers.source == headers.source) ++of_source;
  }
  if (of_source >= kMaxHeldOfOne || of_wire >= kMaxHeldOfWire || held_.size() >= kMaxHeld) {
    return false;
  }
  held_.push_back({sender, headers, std::move(frame), now + kHoldFor});
  return true;
}

void ConnectionRequests::Remove(Block sender) {
  std::erase_if(held_, [sender](const Held& held) { return held.sender == sender; });
}

size_t ConnectionRequests::Refuse(Time now, const RoceHeaders& headers,
                                  std::span<const uint8_t> frame, std::span<uint8_t> out) {
  const size_t mad_end = headers.packet_end - transport::kIcrcBytes;
  transport::cm::MadAddress source{.qpn = headers.source_qpn};
  source.path.destination_gid = headers.source;
  source.path.destination_mac = headers.source_mac;
  manager_.OnMad(now, frame.subspan(mad_end - transport::kMadBytes, transport::kMadBytes), source);
  const auto answer = manager_.PollTransmit();
  if (!answer) return 0;
  return transport::EmitMadFrame(headers.destination_mac, headers.destination, answer->destination,
                                 answer->mad, transport::Psn(0), out);
}

void ConnectionRequests::Remember(Block sender, Block receiver, const RoceHeaders& headers,
                                  Qpn requester_qpn) {
  const Request request{headers.source, *headers.cm->sender};
  const Origin origin{requester_qpn, receiver, headers.destination};
  const bool is_new = origins_.insert_or_assign(request, origin).second;
  std::deque<Request>& remembered = remembered_[sender == kSwitchBlock ? 1 : 0];
  if (is_new) remembered.push_back(request);
  if (remembered.size() <= kMaxRemembered) return;
  origins_.erase(remembered.front());
  remembered.pop_front();
}

Block ConnectionRequests::ReceiverOfRequest(const RoceHeaders& headers) const {
  if (!headers.cm->sender) return kSwitchBlock;
  const Origin* const origin = Find(headers.source, *headers.cm->sender);
  return origin == nullptr ? kSwitchBlock : origin->receiver;
}

Qpn ConnectionRequests::RequesterQpnOf(Block sender, const RoceHeaders& headers) const {
  if (!headers.cm->recipient) return {};
  const Origin* const origin = Find(headers.destination, *headers.cm->recipient);
  const bool went_there =
      origin != nullptr && origin->receiver == sender && origin->destination == headers.source;
  return went_there ? origin->requester_qpn : Qpn{};
}

const ConnectionRequests::Origin* ConnectionRequests::Find(const Gid& peer,
                                                           CommunicationId id) const {
  const auto found = origins_.find({peer, id});
  return found == origins_.end() ? nullptr : &found->second;
}

}  // namespace uroce::nic
