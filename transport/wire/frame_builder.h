#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/address.h"
#include "transport/ids.h"
#include "transport/wire/bth.h"
#include "transport/wire/encapsulation.h"
#include "transport/wire/frame_room.h"
#include "transport/wire/packet.h"
#include "transport/wire/payload_piece.h"

namespace uroce::transport {

// Ethernet 14 + IPv6 40 + UDP 8 + BTH 12 + the largest extension header (AtomicETH) 28 + payload
// 4096 + ICRC 4, rounded up: no frame we send or accept is longer.
inline constexpr size_t kMaxFrameBytes = 4'224;

// The fields of a BTH that differ between the packets of a connection.
struct PacketHeaders {
  uint8_t opcode;  // one of the kRc opcodes (opcode.h), whatever the service of the connection
  Psn psn;
  bool solicited = false;
  bool ack_request = false;
};

// Builds the packets of one flow, with the headers of the network where they are needed: these are
// laid out once. The packets of a connection share fields of the BTH, too.
class FrameBuilder {
 public:
  FrameBuilder() = default;
  // `source_gid` must be of the same IP version as address.destination_gid; they become the IP
  // addresses (IBA CA17-11, CA17-12).
  FrameBuilder(const MacAddress& source_mac, const Gid& source_gid, const AddressVector& address,
               uint16_t udp_source_port);

  // The fields that the packets of a connection have in common.
  struct Connection {
    Service service = Service::kReliableConnection;
    Qpn destination_qpn;
    uint16_t pkey = kDefaultPkey;
    bool migration_request = true;
    // Its frames lack network headers (bare_frame.h) where FrameRoom permits it.
    bool may_be_headerless = false;
  };
  void SetConnection(const Connection& connection);

  const Flow& flow() const { return flow_; }

  // Writes a frame, Ethernet header to ICRC unless it is headerless or `out` is for a packet, into
  // `out`, copying the payload and computing the ICRC over it in one pass if the frame is to carry
  // it. `out` must hold a frame of this opcode and payload. The pad count is derived from the
  // payload. Returns the frame's length in bytes; 0, and `out` may have been written to, if the
  // payload lies in memory that has gone (guarded_access.h).
  [[nodiscard]] size_t Emit(const TransportHeaders& headers, std::span<const PayloadPiece> payload,
                            const FrameRoom& out) const;

  // The same after SetConnection, by the extension header that the opcode has: nearly all packets
  // have none, a RETH or an AETH, and a payload in one piece.
  [[nodiscard]] size_t Emit(const PacketHeaders& headers, const PayloadPiece& payload,
                            const FrameRoom& out) const;
  [[nodiscard]] size_t Emit(const PacketHeaders& headers, const Reth& reth,
                            const PayloadPiece& payload, const FrameRoom& out) const;
  [[nodiscard]] size_t Emit(const PacketHeaders& headers, const Aeth& aeth,
                            const PayloadPiece& payload, const FrameRoom& out) const;

 private:
  // Writes Ethernet, IP and UDP headers of a frame of `frame_bytes` bytes. Does not read `out`.
  // Returns the place behind them.
  uint8_t* CopyNetworkHeaders(size_t frame_bytes, uint8_t* out) const;
  // The state of the ICRC behind these headers.
  uint32_t StartIcrcOf(size_t frame_bytes) const;
  BthWords Complete(const PacketHeaders& headers) const;
  template <class Extensions, class Payload>
  size_t EmitPacket(const BthWords& bth, const Extensions& extensions, const Payload& payload,
                    const FrameRoom& out) const;
  template <class Extensions, class Payload>
  size_t EmitWithNetworkHeaders(BthWords bth, Extensions extensions, Payload payload,
                                const FrameRoom& out) const;

  Flow flow_;
  std::array<uint8_t, kMaxNetworkHeaderBytes> network_headers_{};  // lengths are set later
  size_t network_header_bytes_ = 0;
  bool is_ipv6_ = false;
  bool may_be_headerless_ = false;
  BthWords shared_{};  // the BTH fields of SetConnection; the others are 0
  // StartIcrcOf the last length: nearly all packets of a message have the same.
  mutable uint32_t last_icrc_ = 0;
  mutable size_t last_frame_bytes_ = 0;
};

// Copies a frame that the application has built to `out`, which is long enough. Returns its length
// in bytes, or 0 if its memory cannot be read any more.
size_t EmitRawFrame(std::span<const PayloadPiece> pieces, const FrameRoom& out);

// The UDP source port of a connected QP as the kernel derives it: 0xC000 | 14 bits of the flow
// label's fold, or of a hash of both QPNs when the flow label is 0; the same for all packets of the
// connection (IBA A17.3.2.1).
uint16_t UdpSourcePort(uint32_t flow_label, Qpn local, Qpn remote);

}  // namespace uroce::transport
