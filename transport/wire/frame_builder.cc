#include "transport/wire/frame_builder.h"

#include <cstring>

#include "transport/guarded_access.h"
#include "transport/wire/bare_frame.h"
#include "transport/wire/bth.h"
#include "transport/wire/copy_pieces.h"
#include "transport/wire/crc32.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/extension_headers.h"
#include "transport/wire/icrc.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/ipv6.h"
#include "transport/wire/udp.h"

namespace uroce::transport {
namespace {

constexpr uint8_t PadCount(size_t payload_bytes) {
  return static_cast<uint8_t>((4 - payload_bytes % 4) % 4);
}

size_t TotalBytes(std::span<const PayloadPiece> payload) {
  size_t bytes = 0;
  for (const PayloadPiece& piece : payload) bytes += piece.length;
  return bytes;
}

std::array<uint8_t, 4> Ipv4Of(const Gid& gid) {
  return {gid.bytes[12], gid.bytes[13], gid.bytes[14], gid.bytes[15]};
}

// Writes the payload, and zeros for the pad and the ICRC. False if the payload's memory is gone.
bool CopyPayload(std::span<const PayloadPiece> payload, uint8_t pad_count, uint8_t* at) {
  for (const PayloadPiece& piece : payload) {
    if (!GuardedCopy(at, piece.data, piece.length)) return false;
    at += piece.length;
  }
  std::memset(at, 0, kIcrcBytes);
  std::memset(at + pad_count, 0, kIcrcBytes);
  return true;
}

// Writes the payload, the pad, and the ICRC, which goes on from state `crc`. False as in Emit.
bool CopyPayloadAndIcrc(uint32_t crc, std::span<const PayloadPiece> payload, uint8_t pad_count,
                        uint8_t* at) {
  for (const PayloadPiece& piece : payload) {
    const uint32_t before = crc;
    if (!Crc32CopyAndUpdate(crc, at, piece.data, piece.length)) {
      // GuardedCopy also reads what is protected.
      if (!GuardedCopy(at, piece.data, piece.length)) return false;
      crc = Crc32Update(before, at, piece.length);
    }
    at += piece.length;
  }
  if (pad_count != 0) {
    static constexpr uint8_t kPad[3] = {};
    (void)Crc32CopyAndUpdate(crc, at, kPad, pad_count);
  }
  EmitIcrc(crc, at + pad_count);
  return true;
}

Bth BthOf(const TransportHeaders& headers, uint8_t pad_count) {
  return {.opcode = EncodeOpcode(headers.opcode),
          .solicited = headers.solicited,
          .migration_request = headers.migration_request,
          .pad_count = pad_count,
          .pkey = headers.pkey,
          .forward_congestion = headers.forward_congestion,
          .backward_congestion = headers.backward_congestion,
          .destination_qpn = headers.destination_qpn,
          .ack_request = headers.ack_request,
          .psn = headers.psn};
}

Bth PlainBth(const PlainHeaders& headers, uint8_t pad_count) {
  return {.opcode = headers.opcode,
          .solicited = headers.solicited,
          .migration_request = true,
          .pad_count = pad_count,
          .pkey = kDefaultPkey,
          .destination_qpn = headers.destination_qpn,
          .ack_request = headers.ack_request,
          .psn = headers.psn};
}

// The extension headers of plain packets: none, RETH or AETH.
struct NoExtension {
  static constexpr size_t kBytes = 0;
};
void EmitExtension(const NoExtension&, uint8_t*) {}
void EmitExtension(const Reth& reth, uint8_t* at) { EmitReth(reth, at); }
void EmitExtension(const Aeth& aeth, uint8_t* at) { EmitAeth(aeth, at); }

}  // namespace

FrameBuilder::FrameBuilder(const MacAddress& source_mac, const Gid& source_gid,
                           const AddressVector& address, uint16_t udp_source_port)
    : is_ipv6_(!address.destination_gid.IsIpv4Mapped()) {
  uint8_t* at = network_headers_.data();
  EmitEthernet({.destination = address.destination_mac,
                .source = source_mac,
                .ether_type = is_ipv6_ ? EthernetHeader::kIpv6 : EthernetHeader::kIpv4},
               at);
  at += EthernetHeader::kBytes;
  if (is_ipv6_) {
    EmitIpv6({.traffic_class = address.traffic_class,
              .flow_label = address.flow_label,
              .next_header = UdpHeader::kIpProtocol,
              .hop_limit = address.hop_limit,
              .source = source_gid.bytes,
              .destination = address.destination_gid.bytes},
             at);
    at += Ipv6Header::kBytes;
  } else {
    EmitIpv4({.traffic_class = address.traffic_class,
              .time_to_live = address.hop_limit,
              .protocol = UdpHeader::kIpProtocol,
              .source = Ipv4Of(source_gid),
              .destination = Ipv4Of(address.destination_gid)},
             at);
    at += Ipv4Header::kBytes;
  }
  EmitUdp({.source_port = udp_source_port, .destination_port = UdpHeader::kRocePort}, at);
  at += UdpHeader::kBytes;
  network_header_bytes_ = static_cast<size_t>(at - network_headers_.data());
}

size_t FrameBuilder::FrameBytes(const Opcode& opcode, size_t payload_bytes) const {
  return network_header_bytes_ + Bth::kBytes + ExtensionBytes(opcode) + payload_bytes +
         PadCount(payload_bytes) + kIcrcBytes;
}

uint8_t* FrameBuilder::EmitNetworkHeaders(size_t frame_bytes, uint8_t* out) const {
  const uint8_t* const network = network_headers_.data();
  const auto ip_bytes = static_cast<uint16_t>(frame_bytes - EthernetHeader::kBytes);
  uint8_t* const ip = out + EthernetHeader::kBytes;
  if (is_ipv6_) {
    constexpr size_t kBytes = EthernetHeader::kBytes + Ipv6Header::kBytes + UdpHeader::kBytes;
    std::memcpy(out, network, kBytes);
    const auto udp_bytes = static_cast<uint16_t>(ip_bytes - Ipv6Header::kBytes);
    SetIpv6PayloadLength(udp_bytes, ip);
    SetUdpLength(udp_bytes, ip + Ipv6Header::kBytes);
    return out + kBytes;
  }
  constexpr size_t kBytes = EthernetHeader::kBytes + Ipv4Header::kBytes + UdpHeader::kBytes;
  std::memcpy(out, network, kBytes);
  SetIpv4TotalLength(ip_bytes, network + EthernetHeader::kBytes, ip);
  SetUdpLength(static_cast<uint16_t>(ip_bytes - Ipv4Header::kBytes), ip + Ipv4Header::kBytes);
  return out + kBytes;
}

size_t FrameBuilder::Emit(const TransportHeaders& headers, std::span<const PayloadPiece> payload,
                          const FrameRoom& out) const {
  const size_t payload_bytes = TotalBytes(payload);
  const uint8_t pad_count = PadCount(payload_bytes);
  const size_t header_bytes = network_header_bytes_ + Bth::kBytes + ExtensionBytes(headers.opcode);
  const size_t frame_bytes = header_bytes + payload_bytes + pad_count + kIcrcBytes;
  uint8_t* const at = out.data() + header_bytes;
  const auto emit_headers = [&](uint8_t* to) {
    uint8_t* const bth = EmitNetworkHeaders(frame_bytes, to);
    EmitBth(BthOf(headers, pad_count), bth);
    EmitExtensions(headers, bth + Bth::kBytes);
  };
  if (out.icrc != IcrcUse::kCarried) {
    emit_headers(out.data());
    return CopyPayload(payload, pad_count, at) ? frame_bytes : 0;
  }
  // The frame may lie in memory that its receiver can change, so it is only written: the ICRC is
  // computed over a copy of the headers.
  std::array<uint8_t, kMaxNetworkHeaderBytes + Bth::kBytes + kMaxExtensionBytes> buffer;
  emit_headers(buffer.data());
  CopyPieces<buffer.size()>(buffer.data(), header_bytes, out.data());
  const uint32_t crc = StartIcrc(version(), buffer.data(), header_bytes);
  return CopyPayloadAndIcrc(crc, payload, pad_count, at) ? frame_bytes : 0;
}

template <class Extension>
inline size_t FrameBuilder::EmitExtended(const PlainHeaders& headers, const Extension& extension,
                                         const PayloadPiece& payload, const FrameRoom& out) const {
  if (out.icrc != IcrcUse::kWaivedWithHeaders) {
    return EmitWhole(headers, extension, payload, out);
  }
  constexpr size_t kHeaderBytes = BareFrame::kHeaderBytes + Extension::kBytes;
  const uint8_t pad_count = PadCount(payload.length);
  uint8_t* const at = out.data();
  Store32(BareFrame::kMark, at);
  EmitBth(PlainBth(headers, pad_count), at + BareFrame::kMarkBytes);
  EmitExtension(extension, at + BareFrame::kHeaderBytes);
  if (!GuardedCopy(at + kHeaderBytes, payload.data, payload.length)) return 0;
  std::memset(at + kHeaderBytes + payload.length, 0, 4);
  return kHeaderBytes + payload.length + pad_count;
}

// Not inlined, with arguments by value: otherwise the caller would keep them in memory instead of
// registers, and build bare frames from there.
template <class Extension>
[[gnu::noinline]] size_t FrameBuilder::EmitWhole(PlainHeaders headers, Extension extension,
                                                 PayloadPiece payload, const FrameRoom& out) const {
  const uint8_t pad_count = PadCount(payload.length);
  constexpr size_t kTransportBytes = Bth::kBytes + Extension::kBytes;
  const size_t header_bytes = network_header_bytes_ + kTransportBytes;
  const size_t frame_bytes = header_bytes + payload.length + pad_count + kIcrcBytes;
  uint8_t* const at = out.data() + header_bytes;
  const std::span<const PayloadPiece> pieces(&payload, 1);
  const auto emit_headers = [&](uint8_t* to) {
    uint8_t* const bth = EmitNetworkHeaders(frame_bytes, to);
    EmitBth(PlainBth(headers, pad_count), bth);
    EmitExtension(extension, bth + Bth::kBytes);
  };
  if (out.icrc != IcrcUse::kCarried) {
    emit_headers(out.data());
    return CopyPayload(pieces, pad_count, at) ? frame_bytes : 0;
  }
  std::array<uint8_t, kMaxNetworkHeaderBytes + kTransportBytes> buffer;  // as above
  emit_headers(buffer.data());
  CopyPieces<buffer.size()>(buffer.data(), header_bytes, out.data());
  const uint32_t crc = StartIcrc(version(), buffer.data(), header_bytes);
  return CopyPayloadAndIcrc(crc, pieces, pad_count, at) ? frame_bytes : 0;
}

size_t FrameBuilder::EmitPlain(const PlainHeaders& headers, const PayloadPiece& payload,
                               const FrameRoom& out) const {
  return EmitExtended(headers, NoExtension(), payload, out);
}

size_t FrameBuilder::EmitPlain(const PlainHeaders& headers, const Reth& reth,
                               const PayloadPiece& payload, const FrameRoom& out) const {
  return EmitExtended(headers, reth, payload, out);
}

size_t FrameBuilder::EmitPlain(const PlainHeaders& headers, const Aeth& aeth,
                               const PayloadPiece& payload, const FrameRoom& out) const {
  return EmitExtended(headers, aeth, payload, out);
}

size_t EmitRawFrame(std::span<const PayloadPiece> pieces, const FrameRoom& out) {
  uint8_t* at = out.data();
  for (const PayloadPiece& piece : pieces) {
    if (!GuardedCopy(at, piece.data, piece.length)) return 0;
    at += piece.length;
  }
  return static_cast<size_t>(at - out.data());
}

uint16_t UdpSourcePort(uint32_t flow_label, Qpn local, Qpn remote) {
  constexpr uint32_t kFlowLabelMask = 0xf'ffff;
  constexpr uint32_t kEntropyMask = 0x3fff;
  constexpr uint32_t kFirstPort = 0xc000;
  uint32_t label = flow_label & kFlowLabelMask;
  if (label == 0) {
    uint64_t product = uint64_t{local.value} * remote.value;
    product ^= product >> 20;
    product ^= product >> 40;
    label = static_cast<uint32_t>(product) & kFlowLabelMask;
  }
  return static_cast<uint16_t>(kFirstPort | ((label ^ label >> 14) & kEntropyMask));
}

}  // namespace uroce::transport
