#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/counters.h"
#include "transport/ids.h"
#include "transport/wire/bth.h"
#include "transport/wire/byte_order.h"
#include "transport/wire/packet.h"
#include "transport/wire/received_packet.h"

// A packet from the BTH on. Header prediction, which holds for nearly all packets of an established
// connection, reads only the fields that differ between them (ReadPredicted); ParsePacket reads all
// others.
//
// The packet may lie in memory that another process can change, so each field is read once
// (KeepWhatWasRead).
namespace uroce::transport {

struct PacketView {
  uint32_t first_word;  // of the BTH, in host byte order
  uint32_t second_word;
  uint32_t third_word;
  const uint8_t* extensions;  // the bytes behind the BTH
  size_t bytes;               // of extensions, up to the ICRC

  uint8_t opcode() const { return HighByte(first_word); }
  Qpn destination_qpn() const { return {Low24(second_word)}; }
  Psn psn() const { return Psn(third_word); }
  [[gnu::always_inline]] Bth bth() const { return ParseBth(first_word, second_word, third_word); }
  bool has_known_version() const { return (first_word & 0x000f'0000) == 0; }
  // Whether it is a packet of the default partition, and has the version that there is. The
  // membership bit of the P_Key is not compared (IBA 10.9.3): a connection whose headers are
  // predicted is a full member.
  bool is_in_default_partition() const {
    return (first_word & 0x000f'7fff) == PartitionOf(kDefaultPkey);
  }
};

// `bytes` has at least a BTH.
inline PacketView ViewPacket(std::span<const uint8_t> bytes) {
  const uint8_t* const bth = bytes.data();
  const PacketView view = {Load32(bth), Load32(bth + 4), Load32(bth + 8), bth + Bth::kBytes,
                           bytes.size() - Bth::kBytes};
  KeepWhatWasRead();
  return view;
}

// kNone if the packet has a known opcode, its extension headers and the right padding. `packet`
// then has its transport headers and payload. Otherwise why it is to be dropped; `packet` is then
// undefined. Does not check the version.
DropReason ParsePacket(const PacketView& view, Packet& packet);

// The same with the version, the ICRC, and the fields of the network. `view` is that of `received`.
DropReason ParseReceived(const ReceivedPacket& received, const PacketView& view, Packet& packet);

// A packet whose fields are not set, as that costs more than reading nearly any packet.
union UnsetPacket {
  UnsetPacket() {}
  Packet packet;
};

// Like ParsePacket, for a packet that has one of the kRc opcodes (opcode.h). Sets opcode,
// flags, PSN, `reth` or `aeth` if the opcode has one, and payload.
template <uint8_t kOpcode>
inline bool ReadPredicted(const PacketView& packet, Packet& headers) {
  constexpr bool kHasReth = kOpcode == kRcWriteOnly || kOpcode == kRcWriteFirst;
  constexpr bool kHasAeth = kOpcode == kRcAcknowledge || kOpcode == kRcReadResponseFirst ||
                            kOpcode == kRcReadResponseLast || kOpcode == kRcReadResponseOnly;
  constexpr size_t kExtensionBytes = kHasReth ? Reth::kBytes : kHasAeth ? Aeth::kBytes : 0;
  if (packet.bytes < kExtensionBytes) return false;
  const Bth bth = packet.bth();
  const size_t padded_bytes = packet.bytes - kExtensionBytes;
  if (padded_bytes % 4 != 0 || bth.pad_count > padded_bytes) return false;
  if (kOpcode == kRcAcknowledge && padded_bytes != 0) return false;
  headers.opcode = ReliableOpcode(kOpcode);
  headers.solicited = bth.solicited;
  headers.ack_request = bth.ack_request;
  headers.psn = bth.psn;
  if constexpr (kHasReth) headers.reth = ParseReth(packet.extensions);
  if constexpr (kHasAeth) headers.aeth = ParseAeth(packet.extensions);
  headers.payload = {packet.extensions + kExtensionBytes, padded_bytes - bth.pad_count};
  KeepWhatWasRead();
  return true;
}

}  // namespace uroce::transport
