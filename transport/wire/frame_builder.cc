#include "transport/wire/frame_builder.h"

#include <cstring>

#include "transport/guarded_access.h"
#include "transport/wire/bare_frame.h"
#include "transport/wire/bth.h"
#include "transport/wire/copy_pieces.h"
#include "transport/wire/crc32.h"
#include "transport/wire/encapsulation.h"
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

// The payload of a packet: one piece, or any number.
size_t TotalBytes(const PayloadPiece& payload) { return payload.length; }
size_t TotalBytes(std::span<const PayloadPiece> payload) {
  size_t bytes = 0;
  for (const PayloadPiece& piece : payload) bytes += piece.length;
  return bytes;
}
std::span<const PayloadPiece> PiecesOf(const PayloadPiece& payload) { return {&payload, 1}; }
std::span<const PayloadPiece> PiecesOf(std::span<const PayloadPiece> payload) { return payload; }

// Writes the payload. Returns the place behind it; nullptr if its memory is gone.
uint8_t* CopyPayload(const PayloadPiece& payload, uint8_t* at) {
  return GuardedCopy(at, payload.data, payload.length) ? at + payload.length : nullptr;
}
uint8_t* CopyPayload(std::span<const PayloadPiece> payload, uint8_t* at) {
  for (const PayloadPiece& piece : payload) {
    at = CopyPayload(piece, at);
    if (at == nullptr) return nullptr;
  }
  return at;
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

IpVersion VersionOf(const Flow& flow) {
  return flow.is_ipv6() ? IpVersion::kIpv6 : IpVersion::kIpv4;
}

Bth BthOf(const TransportHeaders& headers) {
  return {.opcode = EncodeOpcode(headers.opcode),
          .solicited = headers.solicited,
          .migration_request = headers.migration_request,
          .pkey = headers.pkey,
          .forward_congestion = headers.forward_congestion,
          .backward_congestion = headers.backward_congestion,
          .destination_qpn = headers.destination_qpn,
          .ack_request = headers.ack_request,
          .psn = headers.psn};
}

// The extension headers of a packet: those that its opcode has, or known before. kMaxBytes: no
// packet has more.
struct AllExtensions {
  static constexpr size_t kMaxBytes = kMaxExtensionBytes;
  const OpcodeRow& row;
  const TransportHeaders& headers;
  size_t size() const { return row.extension_bytes; }
  void Emit(uint8_t* at) const { EmitExtensions(row, headers, at); }
};
struct NoExtension {
  static constexpr size_t kMaxBytes = 0;
  static constexpr size_t size() { return kMaxBytes; }
  static void Emit(uint8_t* /*at*/) {}
};
struct RethOnly : Reth {
  static constexpr size_t kMaxBytes = kBytes;
  static constexpr size_t size() { return kMaxBytes; }
  void Emit(uint8_t* at) const { EmitReth(*this, at); }
};
struct AethOnly : Aeth {
  static constexpr size_t kMaxBytes = kBytes;
  static constexpr size_t size() { return kMaxBytes; }
  void Emit(uint8_t* at) const { EmitAeth(*this, at); }
};

}  // namespace

FrameBuilder::FrameBuilder(const MacAddress& source_mac, const Gid& source_gid,
                           const AddressVector& address, uint16_t udp_source_port)
    : flow_{.source = source_gid,
            .destination = address.destination_gid,
            .source_mac = source_mac,
            .destination_mac = address.destination_mac,
            .source_port = udp_source_port,
            .flow_label = address.flow_label,
            .traffic_class = address.traffic_class,
            .hop_limit = address.hop_limit},
      network_header_bytes_(NetworkHeaderBytes(flow_)),
      is_ipv6_(flow_.is_ipv6()) {
  uint8_t* const begin = network_headers_.data();
  EmitNetworkHeaders(flow_, 0, 0, begin);
  if (is_ipv6_) return;
  uint8_t* const ip = begin + EthernetHeader::kBytes;
  Store16(0, ip + Ipv4Header::kTotalLengthOffset);  // as SetIpv4TotalLength takes it
  CorrectIpv4Checksum(ip);
}

void FrameBuilder::SetConnection(const Connection& connection) {
  // The opcode of a SEND's first packet has the bits of the service only.
  static_assert(kRcSendFirst == 0);
  shared_ =
      WordsOf({.opcode = EncodeOpcode({connection.service, Operation::kSend, Position::kFirst}),
               .migration_request = connection.migration_request,
               .pkey = connection.pkey,
               .destination_qpn = connection.destination_qpn});
  may_be_headerless_ = connection.may_be_headerless;
}

uint8_t* FrameBuilder::CopyNetworkHeaders(size_t frame_bytes, uint8_t* out) const {
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

uint32_t FrameBuilder::StartIcrcOf(size_t frame_bytes) const {
  if (frame_bytes != last_frame_bytes_) {
    std::array<uint8_t, kMaxNetworkHeaderBytes> headers;
    CopyNetworkHeaders(frame_bytes, headers.data());
    last_icrc_ = StartIcrc(VersionOf(flow_), headers.data(), network_header_bytes_);
    last_frame_bytes_ = frame_bytes;
  }
  return last_icrc_;
}

inline BthWords FrameBuilder::Complete(const PacketHeaders& headers) const {
  const BthWords own = WordsOf({.opcode = headers.opcode,
                                .solicited = headers.solicited,
                                .ack_request = headers.ack_request,
                                .psn = headers.psn});
  return {shared_.first | own.first, shared_.second, own.third};
}

template <class Extensions, class Payload>
inline size_t FrameBuilder::EmitPacket(const BthWords& bth, const Extensions& extensions,
                                       const Payload& payload, const FrameRoom& out) const {
  const size_t payload_bytes = TotalBytes(payload);
  const uint8_t pad_count = PadCount(payload_bytes);
  const BthWords padded = {bth.first | WordsOf({.pad_count = pad_count}).first, bth.second,
                           bth.third};
  const bool is_headerless = out.icrc == IcrcUse::kWaivedWithHeaders && may_be_headerless_;
  if (!is_headerless) return EmitWithNetworkHeaders(padded, extensions, payload, out);
  const size_t header_bytes = BareFrame::kHeaderBytes + extensions.size();
  uint8_t* const at = out.data();
  Store32(BareFrame::kMark, at);
  EmitBth(padded, at + BareFrame::kMarkBytes);
  extensions.Emit(at + BareFrame::kHeaderBytes);
  uint8_t* const end = CopyPayload(payload, at + header_bytes);
  if (end == nullptr) return 0;
  std::memset(end, 0, kIcrcBytes);  // the pad, and more
  return header_bytes + payload_bytes + pad_count;
}

// Not inlined, with arguments by value: otherwise the caller would keep them in memory instead of
// registers, and build headerless frames from there.
template <class Extensions, class Payload>
[[gnu::noinline]] size_t FrameBuilder::EmitWithNetworkHeaders(BthWords bth, Extensions extensions,
                                                              Payload payload,
                                                              const FrameRoom& out) const {
  const size_t payload_bytes = TotalBytes(payload);
  const uint8_t pad_count = PadCount(payload_bytes);
  const size_t packet_header_bytes = Bth::kBytes + extensions.size();
  const size_t frame_bytes =
      network_header_bytes_ + packet_header_bytes + payload_bytes + pad_count + kIcrcBytes;
  const size_t bth_at = out.flow == nullptr ? network_header_bytes_ : 0;
  const size_t header_bytes = bth_at + packet_header_bytes;
  uint8_t* const at = out.data() + header_bytes;
  if (out.flow != nullptr) *out.flow = flow_;
  const auto emit_headers = [&](uint8_t* to) {
    if (out.flow == nullptr) CopyNetworkHeaders(frame_bytes, to);
    EmitBth(bth, to + bth_at);
    extensions.Emit(to + bth_at + Bth::kBytes);
  };
  if (out.icrc != IcrcUse::kCarried) {
    emit_headers(out.data());
    uint8_t* const end = CopyPayload(payload, at);
    if (end == nullptr) return 0;
    std::memset(end, 0, kIcrcBytes);
    std::memset(end + pad_count, 0, kIcrcBytes);
    return frame_bytes;
  }
  // The frame may lie in memory that its receiver can change, so it is only written: the ICRC is
  // computed over a copy of the headers.
  std::array<uint8_t, kMaxNetworkHeaderBytes + Bth::kBytes + Extensions::kMaxBytes> buffer;
  emit_headers(buffer.data());
  CopyPieces<buffer.size()>(buffer.data(), header_bytes, out.data());
  // Of headers that were just written, the state costs less at once than in two parts.
  const uint32_t crc = out.flow == nullptr
                           ? StartIcrc(VersionOf(flow_), buffer.data(), header_bytes)
                           : ContinueIcrc(StartIcrcOf(frame_bytes), buffer.data(), header_bytes);
  return CopyPayloadAndIcrc(crc, PiecesOf(payload), pad_count, at) ? frame_bytes : 0;
}

size_t FrameBuilder::Emit(const TransportHeaders& headers, std::span<const PayloadPiece> payload,
                          const FrameRoom& out) const {
  return EmitPacket(WordsOf(BthOf(headers)), AllExtensions{RowOf(headers.opcode), headers}, payload,
                    out);
}

size_t FrameBuilder::Emit(const PacketHeaders& headers, const PayloadPiece& payload,
                          const FrameRoom& out) const {
  return EmitPacket(Complete(headers), NoExtension(), payload, out);
}

size_t FrameBuilder::Emit(const PacketHeaders& headers, const Reth& reth,
                          const PayloadPiece& payload, const FrameRoom& out) const {
  return EmitPacket(Complete(headers), RethOnly{reth}, payload, out);
}

size_t FrameBuilder::Emit(const PacketHeaders& headers, const Aeth& aeth,
                          const PayloadPiece& payload, const FrameRoom& out) const {
  return EmitPacket(Complete(headers), AethOnly{aeth}, payload, out);
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
