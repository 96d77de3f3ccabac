#pragma once

#include <cstdint>
#include <span>

#include "transport/wire/encapsulation.h"
#include "transport/wire/frame_parser.h"
#include "transport/wire/packet_view.h"

namespace uroce::transport {

// Whether the predicted packet of this opcode has the fields of `expected`.
template <uint8_t kOpcode>
bool IsReadAs(const PacketView& packet, bool is_packet, const Packet& expected) {
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
inline bool IsReadAsPredicted(const PacketView& packet, bool is_packet, const Packet& expected) {
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

// Whether a frame is stripped in the same way behind `last`, whose headers may be the same, and
// behind itself.
inline bool IsStrippedAsAlone(std::span<const uint8_t> last, std::span<const uint8_t> frame) {
  Decapsulator alone;
  Decapsulator behind;
  ReceivedPacket expected;
  ReceivedPacket packet;
  (void)behind.Strip(last, IcrcUse::kCarried, packet);
  const DropReason reason = alone.Strip(frame, IcrcUse::kCarried, expected);
  if (behind.Strip(frame, IcrcUse::kCarried, packet) != reason) return false;
  if (behind.Strip(frame, IcrcUse::kCarried, packet) != reason) return false;
  return reason != DropReason::kNone ||
         (*packet.flow == *expected.flow && packet.bytes.data() == expected.bytes.data() &&
          packet.bytes.size() == expected.bytes.size() &&
          packet.identification == expected.identification &&
          packet.is_icrc_right == expected.is_icrc_right &&
          packet.frame_bytes == expected.frame_bytes);
}

// Whether header prediction and ParseFrame agree on a frame, whether its lengths and checksum are
// compared at once or by the caller of FindRocePacket, for every treatment of its ICRC.
inline bool BothWaysAgree(std::span<const uint8_t> frame) {
  for (const IcrcUse check : {IcrcUse::kCarried, IcrcUse::kWaived}) {
    Packet slow;
    const DropReason reason = ParseFrame(frame, slow, check);
    Decapsulator decapsulator;
    ReceivedPacket received;
    const auto found = FindRocePacket(frame);
    const bool is_roce = decapsulator.Strip(frame, check, received) == DropReason::kNone;
    const bool is_found =
        found && found->is_valid && found->ip_bytes == found->ip_header_bytes() + found->udp_bytes;
    if (is_roce != is_found) return false;
    if (!is_roce) continue;
    const PacketView view = ViewPacket(received.bytes);
    const bool is_ours =
        received.bytes.data() == frame.data() + found->bth_at() &&
        received.bytes.data() + received.bytes.size() + kIcrcBytes == frame.data() + found->end();
    if (!is_ours) return false;
    if (!received.is_icrc_right || !view.has_known_version()) {
      if (reason == DropReason::kNone) return false;
      continue;
    }
    if (!IsReadAsPredicted(view, reason == DropReason::kNone, slow)) return false;
  }
  return true;
}

}  // namespace uroce::transport
