#include "transport/wire/packet_view.h"

#include "transport/wire/extension_headers.h"

namespace uroce::transport {

DropReason ParsePacket(const PacketView& view, Packet& packet) {
  const Bth bth = view.bth();
  const OpcodeRow& row = kOpcodeRows[bth.opcode];
  if (!row.is_known) return DropReason::kUnknownOpcode;
  const size_t extension_bytes = row.extension_bytes;
  if (view.bytes < extension_bytes) return DropReason::kTooShort;
  const size_t padded_bytes = view.bytes - extension_bytes;
  const bool fits = padded_bytes % 4 == 0 && bth.pad_count <= padded_bytes &&
                    (padded_bytes == 0 || row.has_payload);  // IBA oA19-2
  if (!fits) return DropReason::kBadPadding;
  packet.opcode = row.opcode;
  packet.solicited = bth.solicited;
  packet.migration_request = bth.migration_request;
  packet.forward_congestion = bth.forward_congestion;
  packet.backward_congestion = bth.backward_congestion;
  packet.ack_request = bth.ack_request;
  packet.pkey = bth.pkey;
  packet.destination_qpn = bth.destination_qpn;
  packet.psn = bth.psn;
  ParseExtensions(row, view.extensions, packet);
  packet.payload = {view.extensions + extension_bytes, padded_bytes - bth.pad_count};
  KeepWhatWasRead();
  return DropReason::kNone;
}

DropReason ParseReceived(const ReceivedPacket& received, const PacketView& view, Packet& packet) {
  if (!view.has_known_version()) return DropReason::kBadBthVersion;
  const DropReason reason = ParsePacket(view, packet);
  if (reason != DropReason::kNone) return reason;
  packet.flow = *received.flow;
  packet.from = received.from;
  packet.identification = received.identification;
  packet.padded_bytes = received.bytes.size();
  return received.is_icrc_right ? DropReason::kNone : DropReason::kBadIcrc;
}

}  // namespace uroce::transport
