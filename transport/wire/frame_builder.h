#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/address.h"
#include "transport/ids.h"
#include "transport/wire/frame_room.h"
#include "transport/wire/packet.h"
#include "transport/wire/payload_piece.h"

namespace uroce::transport {

// Ethernet 14 + IPv6 40 + UDP 8 + BTH 12 + the largest extension header (AtomicETH) 28 + payload
// 4096 + ICRC 4, rounded up: no frame we send or accept is longer.
inline constexpr size_t kMaxFrameBytes = 4'224;

// The fields of a BTH that differ between plain packets.
struct PlainHeaders {
  uint8_t opcode;
  Qpn destination_qpn;
  Psn psn;
  bool solicited = false;
  bool ack_request = false;
};

// Builds the frames of one path. The headers that all packets of a path have in common (Ethernet,
// IP and UDP) are laid out once.
class FrameBuilder {
 public:
  FrameBuilder() = default;
  // `source_gid` must be of the same IP version as address.destination_gid; they become the IP
  // addresses (IBA CA17-11, CA17-12).
  FrameBuilder(const MacAddress& source_mac, const Gid& source_gid, const AddressVector& address,
               uint16_t udp_source_port);

  // Writes the whole frame, Ethernet header to ICRC, into `out`, copying the payload and computing
  // the ICRC over it in one pass if the frame is to carry it. `out` must hold
  // FrameBytes(headers.opcode, payload bytes). The pad count is derived from the payload. Returns
  // the frame's length in bytes; 0, and `out` may have been written to, if the payload lies in
  // memory that has gone (guarded_access.h).
  [[nodiscard]] size_t Emit(const TransportHeaders& headers, std::span<const PayloadPiece> payload,
                            const FrameRoom& out) const;

  // The same, with fewer instructions, for nearly all packets of a reliable connection: those with
  // the kRc opcodes of opcode.h, by the extension header that the opcode has. The frame is bare
  // (bare_frame.h) if `out` permits it.
  [[nodiscard]] size_t EmitPlain(const PlainHeaders& headers, const PayloadPiece& payload,
                                 const FrameRoom& out) const;
  [[nodiscard]] size_t EmitPlain(const PlainHeaders& headers, const Reth& reth,
                                 const PayloadPiece& payload, const FrameRoom& out) const;
  [[nodiscard]] size_t EmitPlain(const PlainHeaders& headers, const Aeth& aeth,
                                 const PayloadPiece& payload, const FrameRoom& out) const;

  // Length of a frame on this path.
  size_t FrameBytes(const Opcode& opcode, size_t payload_bytes) const;

 private:
  static constexpr size_t kMaxNetworkHeaderBytes = 14 + 40 + 8;

  // Writes Ethernet, IP and UDP headers of a frame of `frame_bytes` bytes. Does not read `out`.
  // Returns the place behind them.
  uint8_t* EmitNetworkHeaders(size_t frame_bytes, uint8_t* out) const;
  template <class Extension>
  size_t EmitExtended(const PlainHeaders& headers, const Extension& extension,
                      const PayloadPiece& payload, const FrameRoom& out) const;
  template <class Extension>
  size_t EmitWhole(PlainHeaders headers, Extension extension, PayloadPiece payload,
                   const FrameRoom& out) const;

  IpVersion version() const { return is_ipv6_ ? IpVersion::kIpv6 : IpVersion::kIpv4; }

  std::array<uint8_t, kMaxNetworkHeaderBytes> network_headers_{};  // with lengths of 0
  size_t network_header_bytes_ = 0;
  bool is_ipv6_ = false;
};

// Copies a frame that the application has built to `out`, which is long enough. Returns its length
// in bytes, or 0 if its memory cannot be read any more.
size_t EmitRawFrame(std::span<const PayloadPiece> pieces, const FrameRoom& out);

// The UDP source port of a connected QP as the kernel derives it: 0xC000 | 14 bits of the flow
// label's fold, or of a hash of both QPNs when the flow label is 0; the same for all packets of the
// connection (IBA A17.3.2.1).
uint16_t UdpSourcePort(uint32_t flow_label, Qpn local, Qpn remote);

}  // namespace uroce::transport
