#include "dpdk_nic/switch/connection_requests.h"

#include <algorithm>
#include <utility>

#include "transport/wire/frame_builder.h"
#include "transport/wire/icrc.h"

namespace uroce::nic {
namespace {

using control::Block;
using control::kSwitchBlock;
using transport::Time;
using transport::cm::kGeneralServicesQkey;
using transport::cm::kGeneralServicesQpn;

// Whether it is the same request, sent once more.
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
  const transport::FrameBuilder builder(
      headers.destination_mac, headers.destination, answer->destination.path,
      transport::UdpSourcePort(0, kGeneralServicesQpn, kGeneralServicesQpn));
  transport::TransportHeaders transport_headers;
  transport_headers.opcode.service = transport::Service::kUnreliableDatagram;
  transport_headers.destination_qpn = answer->destination.qpn;
  transport_headers.deth = {.qkey = kGeneralServicesQkey, .source_qpn = kGeneralServicesQpn};
  const transport::PayloadPiece payload{answer->mad.data(), answer->mad.size()};
  return builder.Emit(transport_headers, {&payload, 1}, out);
}

void ConnectionRequests::Remember(const RoceHeaders& headers, Block receiver) {
  origins_[PlaceOf(headers)] = {headers.source, *headers.cm->sender, receiver};
}

Block ConnectionRequests::ReceiverOfRequest(const RoceHeaders& headers) const {
  if (!headers.cm->sender) return kSwitchBlock;
  const Origin& origin = origins_[PlaceOf(headers)];
  const bool is_it = origin.peer == headers.source && origin.id == *headers.cm->sender;
  return is_it ? origin.receiver : kSwitchBlock;
}

// Only of messages that name their sender.
size_t ConnectionRequests::PlaceOf(const RoceHeaders& headers) const {
  return (hash_(headers.source) ^ hash_(headers.cm->sender->value)) % kRemembered;
}

}  // namespace uroce::nic
