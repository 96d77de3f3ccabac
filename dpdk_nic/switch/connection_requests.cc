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
  size_t of_sender = 0;
  for (const Held& held : held_) {
    if (held.sender != sender) continue;
    if (IsSame(held.headers, headers)) return true;
    ++of_sender;
  }
  if (of_sender >= kMaxHeldOfOne || held_.size() >= kMaxHeld) return false;
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
  manager_.OnMad(now, frame.subspan(mad_end - transport::cm::kMadBytes, transport::cm::kMadBytes),
                 source);
  const auto answer = manager_.PollTransmit();
  if (!answer) return 0;
  return transport::EmitMadFrame(headers.destination_mac, headers.destination, answer->destination,
                                 answer->mad, transport::Psn(0), out);
}

void ConnectionRequests::Remember(const RoceHeaders& headers, Block receiver, Qpn requester_qpn) {
  const Request request{headers.source, *headers.cm->sender};
  const bool is_new = origins_.insert_or_assign(request, Origin{requester_qpn, receiver}).second;
  if (is_new) remembered_.push_back(request);
  if (remembered_.size() <= kMaxRemembered) return;
  origins_.erase(remembered_.front());
  remembered_.pop_front();
}

Block ConnectionRequests::ReceiverOfRequest(const RoceHeaders& headers) const {
  if (!headers.cm->sender) return kSwitchBlock;
  const Origin* const origin = Find(headers.source, *headers.cm->sender);
  return origin == nullptr ? kSwitchBlock : origin->receiver;
}

Qpn ConnectionRequests::RequesterQpnOf(const RoceHeaders& headers) const {
  if (!headers.cm->recipient) return {};
  const Origin* const origin = Find(headers.destination, *headers.cm->recipient);
  return origin == nullptr ? Qpn{} : origin->requester_qpn;
}

const ConnectionRequests::Origin* ConnectionRequests::Find(const Gid& peer,
                                                           CommunicationId id) const {
  const auto found = origins_.find({peer, id});
  return found == origins_.end() ? nullptr : &found->second;
}

}  // namespace uroce::nic
