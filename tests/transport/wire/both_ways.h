#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "transport/wire/connection_frame.h"
#include "transport/wire/frame_parser.h"

namespace uroce::transport {

// The addresses at the offsets of an IP header, whether or not the frame has one.
inline ConnectionFrames SupposedSender(std::span<const uint8_t> frame, bool ipv6, Service service) {
  std::array<uint8_t, 64> bytes{};
  std::copy_n(frame.begin(), std::min(frame.size(), bytes.size()), bytes.begin());
  ConnectionFrames sender{.service = service, .destination_qpn = PeekDestinationQpn(frame)};
  if (ipv6) {
    std::memcpy(sender.source.bytes.data(), &bytes[22], 16);
    std::memcpy(sender.destination.bytes.data(), &bytes[38], 16);
  } else {
    sender.source = sender.destination = Gid::FromIpv4({});
    std::memcpy(&sender.source.bytes[12], &bytes[26], 4);
    std::memcpy(&sender.destination.bytes[12], &bytes[30], 4);
  }
  return sender;
}

inline bool AreTheSame(const Packet& a, const Packet& b) {
  return a.opcode == b.opcode && a.solicited == b.solicited && a.ack_request == b.ack_request &&
         a.psn == b.psn && a.deth == b.deth && a.reth == b.reth && a.atomic == b.atomic &&
         a.aeth == b.aeth && a.atomic_original == b.atomic_original && a.immediate == b.immediate &&
         a.invalidate_rkey == b.invalidate_rkey && a.payload.data() == b.payload.data() &&
         a.payload.size() == b.payload.size();
}

// Whether the predicted packet of this opcode has the fields of `expected`.
template <uint8_t kOpcode>
bool IsReadAs(const ConnectionPacket& packet, bool is_packet, const Packet& expected) {
  Packet predicted;
  if (ReadPredicted<kOpcode>(packet, predicted) != is_packet) return false;
  return !is_packet ||
         (predicted.opcode == expected.opcode && predicted.solicited == expected.solicited &&
          predicted.ack_request == expected.ack_request && predicted.psn == expected.psn &&
          predicted.reth == expected.reth && predicted.aeth == expected.aeth &&
          predicted.payload.data() == expected.payload.data() &&
          predicted.payload.size() == expected.payload.size());
}

// The same for any packet of a reliable connection that is predicted.
inline bool IsReadAsPredicted(const ConnectionPacket& packet, bool is_packet,
                              const Packet& expected) {
  switch (packet.opcode()) {
    case kRcSendFirst:
      return IsReadAs<kRcSendFirst>(packet, is_packet, expected);
    case kRcSendMiddle:
      return IsReadAs<kRcSendMiddle>(packet, is_packet, expected);
    case kRcSendLast:
      return IsReadAs<kRcSendLast>(packet, is_packet, expected);
    case kRcSendOnly:
      return IsReadAs<kRcSendOnly>(packet, is_packet, expected);
    case kRcWriteFirst:
      return IsReadAs<kRcWriteFirst>(packet, is_packet, expected);
    case kRcWriteMiddle:
      return IsReadAs<kRcWriteMiddle>(packet, is_packet, expected);
    case kRcWriteLast:
      return IsReadAs<kRcWriteLast>(packet, is_packet, expected);
    case kRcWriteOnly:
      return IsReadAs<kRcWriteOnly>(packet, is_packet, expected);
    case kRcReadResponseFirst:
      return IsReadAs<kRcReadResponseFirst>(packet, is_packet, expected);
    case kRcReadResponseMiddle:
      return IsReadAs<kRcReadResponseMiddle>(packet, is_packet, expected);
    case kRcReadResponseLast:
      return IsReadAs<kRcReadResponseLast>(packet, is_packet, expected);
    case kRcReadResponseOnly:
      return IsReadAs<kRcReadResponseOnly>(packet, is_packet, expected);
    case kRcAcknowledge:
      return IsReadAs<kRcAcknowledge>(packet, is_packet, expected);
    default:
      return true;
  }
}

// Whether header prediction and ParseFrame agree on a frame, for any connection that it may belong
// to, and for every treatment of its ICRC.
inline bool BothWaysAgree(std::span<const uint8_t> frame) {
  for (const IcrcCheck check : {IcrcCheck::kNeeded, IcrcCheck::kDone, IcrcCheck::kWaived}) {
    Packet slow;
    const bool is_packet = ParseFrame(frame, slow, check) == DropReason::kNone;
    for (const bool ipv6 : {false, true}) {
      for (const Service service : {Service::kReliableConnection, Service::kUnreliableConnection}) {
        const ConnectionFrames sender = SupposedSender(frame, ipv6, service);
        // GIDs of one IP version, as in the path of a queue pair.
        if (ipv6 && (sender.source.IsIpv4Mapped() || sender.destination.IsIpv4Mapped())) continue;
        const bool is_senders = is_packet && slow.source_gid == sender.source &&
                                slow.destination_gid == sender.destination &&
                                slow.destination_qpn == sender.destination_qpn &&
                                slow.opcode.service == service &&
                                PkeysMatch(slow.pkey, kDefaultPkey);
        Packet fast;
        if (ParseConnectionFrame(frame, sender, check, fast) != is_senders) return false;
        if (is_senders && !AreTheSame(slow, fast)) return false;
        ConnectionPacket packet;
        if (service == Service::kReliableConnection &&
            MatchConnectionFrame(frame, sender, check, packet) &&
            !IsReadAsPredicted(packet, is_senders, slow)) {
          return false;
        }
      }
    }
  }
  return true;
}

}  // namespace uroce::transport
