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

// The short way for the frames of an established connection, which are nearly all frames: what the
// ladder (frame_parser.h) and the checks of addresses and partition would find out rung by rung is
// compared with what is known to be right. A frame that is not as expected in any way has the
// ladder say why.
namespace uroce::transport {

// What the frames of a connection have in common, seen from the end that receives them.
struct ConnectionFrames {
  Service service = Service::kReliableConnection;
  Qpn destination_qpn;
  Gid source{};  // of the same IP version
  Gid destination{};
};

// The QPN in the BTH of a frame with an IP header as we send it; some number if it is another one.
// 0 if the frame is too short.
Qpn PeekDestinationQpn(std::span<const uint8_t> frame);

// What the network headers and the BTH of a connection's frame leave open.
struct ConnectionPacket {
  uint32_t first_word;        // of the BTH
  uint32_t third_word;        // of the BTH
  const uint8_t* extensions;  // what comes behind the BTH, in the frame
  size_t bytes;               // of that, up to the ICRC

  uint8_t opcode() const { return HighByte(first_word); }
  Psn psn() const { return Psn(third_word); }
  // Opcode and P_Key aside; a destination QPN of 0 stands for the one that is expected.
  Bth bth() const { return ParseBth(first_word, 0, third_word); }
};

// The frame may lie in memory that another process can change: what is used is read once. The
// compiler does not load again what was loaded before.
inline void KeepWhatWasRead() { std::atomic_signal_fence(std::memory_order_seq_cst); }

// Whether IP, UDP and base transport header of a frame are those of a packet of `expected`, its
// partition is ours (IBA 10.9.3), and the ICRC is right. If not, `packet` is undefined.
bool MatchConnectionFrame(std::span<const uint8_t> frame, const ConnectionFrames& expected,
                          IcrcCheck icrc_check, ConnectionPacket& packet);

// The QPN that a bare frame is for, and its packet. Version and P_Key are not looked at.
inline Qpn ReadBareFrame(std::span<const uint8_t> frame, ConnectionPacket& packet) {
  const uint8_t* const bth = frame.data() + BareFrame::kMarkBytes;
  const uint32_t first = Load32(bth);
  const uint32_t second = Load32(bth + 4);
  const uint32_t third = Load32(bth + 8);
  KeepWhatWasRead();
  packet = {first, third, bth + Bth::kBytes, frame.size() - BareFrame::kHeaderBytes};
  return {Low24(second)};
}

// kNone if opcode and extension headers are those of a packet of `service`. `headers` then says
// what it brings: transport headers and payload, but no addresses, P_Key and other things that are
// as expected. Otherwise why the frame is to be dropped; `headers` is undefined.
DropReason ReadConnectionPacket(const ConnectionPacket& packet, Service service, Packet& headers);

// Both: whether ParseFrame would take the frame, and it is one of `expected`.
inline bool ParseConnectionFrame(std::span<const uint8_t> frame, const ConnectionFrames& expected,
                                 IcrcCheck icrc_check, Packet& headers) {
  ConnectionPacket packet;
  return MatchConnectionFrame(frame, expected, icrc_check, packet) &&
         ReadConnectionPacket(packet, expected.service, headers) == DropReason::kNone;
}

// A packet of kRcSendOnly, kRcWriteOnly or kRcAcknowledge: nearly all are. The opcode says which
// of the headers it has.
struct PlainPacket {
  bool solicited;
  bool ack_request;
  Psn psn;
  Reth reth;
  Aeth aeth;
  std::span<const uint8_t> payload;
};

// As ReadConnectionPacket, of a packet that has this opcode.
template <uint8_t kOpcode>
inline bool ReadPlainPacket(const ConnectionPacket& packet, PlainPacket& plain) {
  constexpr size_t kExtensionBytes = kOpcode == kRcWriteOnly     ? Reth::kBytes
                                     : kOpcode == kRcAcknowledge ? Aeth::kBytes
                                                                 : 0;
  if (packet.bytes < kExtensionBytes) return false;
  const Bth bth = packet.bth();
  const size_t padded_bytes = packet.bytes - kExtensionBytes;
  if (padded_bytes % 4 != 0 || bth.pad_count > padded_bytes) return false;
  if (kOpcode == kRcAcknowledge && padded_bytes != 0) return false;
  plain.solicited = bth.solicited;
  plain.ack_request = bth.ack_request;
  plain.psn = bth.psn;
  if constexpr (kOpcode == kRcWriteOnly) plain.reth = ParseReth(packet.extensions);
  if constexpr (kOpcode == kRcAcknowledge) plain.aeth = ParseAeth(packet.extensions);
  plain.payload = {packet.extensions + kExtensionBytes, padded_bytes - bth.pad_count};
  KeepWhatWasRead();
  return true;
}

}  // namespace uroce::transport
