#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/counters.h"
#include "transport/ids.h"
#include "transport/wire/bare_frame.h"
#include "transport/wire/bth.h"
#include "transport/wire/icrc.h"
#include "transport/wire/packet.h"

// The short way for the frames of an established connection, which are nearly all frames: instead
// of checking the headers one by one (frame_parser.h), then addresses and partition, it compares
// them with those that the peer sends. ParseFrame finds out what is wrong with a frame that differs
// in anything.
namespace uroce::transport {

// The header fields that the frames of a connection have in common, as their receiver sees them.
struct ConnectionFrames {
  Service service = Service::kReliableConnection;
  Qpn destination_qpn;
  Gid source{};  // of the same IP version
  Gid destination{};
};

// The destination QPN of a frame whose IP header is as we send it; any number if the header is
// another one. 0 if the frame is too short.
Qpn PeekDestinationQpn(std::span<const uint8_t> frame);

// The parts of a connection's frame that vary.
struct ConnectionPacket {
  uint32_t first_word;        // of the BTH
  uint32_t third_word;        // of the BTH
  const uint8_t* extensions;  // the bytes behind the BTH, in the frame
  size_t bytes;               // of extensions, up to the ICRC

  uint8_t opcode() const { return HighByte(first_word); }
  Psn psn() const { return Psn(third_word); }
  // With 0 for the second word: destination QPN and congestion bits.
  Bth bth() const { return ParseBth(first_word, 0, third_word); }
};

// The frame may lie in memory that another process can change, so each field is read once: after
// this call the compiler does not load again what was loaded before it.
inline void KeepWhatWasRead() { std::atomic_signal_fence(std::memory_order_seq_cst); }

// Whether IP, UDP and base transport header of a frame are those of a packet of `expected`, its
// partition is ours (IBA 10.9.3), and the ICRC is right. If not, `packet` is undefined.
bool MatchConnectionFrame(std::span<const uint8_t> frame, const ConnectionFrames& expected,
                          IcrcCheck icrc_check, ConnectionPacket& packet);

// Returns the destination QPN of a bare frame and sets `packet`. Version and P_Key are not checked.
inline Qpn ReadBareFrame(std::span<const uint8_t> frame, ConnectionPacket& packet) {
  const uint8_t* const bth = frame.data() + BareFrame::kMarkBytes;
  const uint32_t first = Load32(bth);
  const uint32_t second = Load32(bth + 4);
  const uint32_t third = Load32(bth + 8);
  KeepWhatWasRead();
  packet = {first, third, bth + Bth::kBytes, frame.size() - BareFrame::kHeaderBytes};
  return {Low24(second)};
}

// kNone if opcode and extension headers are those of a packet of `service`. `headers` then has its
// transport headers and payload, but not the addresses, P_Key and other fields that were compared.
// Otherwise why the frame is to be dropped; `headers` is undefined.
DropReason ReadConnectionPacket(const ConnectionPacket& packet, Service service, Packet& headers);

// Both of these: whether ParseFrame would accept the frame, and it is one of `expected`.
inline bool ParseConnectionFrame(std::span<const uint8_t> frame, const ConnectionFrames& expected,
                                 IcrcCheck icrc_check, Packet& headers) {
  ConnectionPacket packet;
  return MatchConnectionFrame(frame, expected, icrc_check, packet) &&
         ReadConnectionPacket(packet, expected.service, headers) == DropReason::kNone;
}

// A packet whose fields are not set, as that costs more than reading nearly any packet.
union UnsetPacket {
  UnsetPacket() {}
  Packet packet;
};

// Like ReadConnectionPacket, for a packet that has one of the kRc opcodes (opcode.h). Sets opcode,
// flags, PSN, `reth` or `aeth` if the opcode has one, and payload.
template <uint8_t kOpcode>
inline bool ReadPredicted(const ConnectionPacket& packet, Packet& headers) {
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
