#include "dpdk_nic/switch/frame_classifier.h"

#include <algorithm>
#include <cstring>

#include "transport/wire/bth.h"
#include "transport/wire/copy_pieces.h"
#include "transport/wire/deth.h"
#include "transport/wire/encapsulation.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/extension_headers.h"
#include "transport/wire/icrc.h"
#include "transport/wire/ipv6.h"
#include "transport/wire/udp.h"

namespace uroce::nic {
namespace {

using transport::Bth;
using transport::CopyPieces;
using transport::EthernetHeader;
using transport::Ipv6Header;
using transport::UdpHeader;

// The pieces begin here, behind the destination address, so that no field of IP, BTH and DETH lies
// in two of them: a load from two stores waits for both to leave the store buffer.
constexpr size_t kPieces = EthernetHeader::kSourceOffset;

void CopyHead(const uint8_t* from, size_t bytes, uint8_t* to) {
  CopyPieces<kPieces>(from, std::min(bytes, kPieces), to);
  if (bytes <= kPieces) return;
  CopyPieces<FrameHead::kBytes - kPieces>(from + kPieces, bytes - kPieces, to + kPieces);
}

constexpr size_t kParsedOfMad =
    std::max(transport::cm::Steering::kParsedBytes, transport::PeerQuery::kParsedBytes);
static_assert(EthernetHeader::kBytes + Ipv6Header::kBytes + UdpHeader::kBytes + Bth::kBytes +
                  transport::Deth::kBytes + kParsedOfMad <=
              FrameHead::kBytes);

// Reads the BTH and what lies behind it, up to the ICRC at `end`. False if a header is cut.
bool ReadTransport(const FrameHead& head, size_t bth_at, size_t end, RoceHeaders& headers) {
  const Bth bth = transport::ParseBth(head.at(bth_at));
  if (bth.transport_version != 0) return false;
  headers.opcode = transport::ParseOpcode(bth.opcode);
  headers.destination_qpn = bth.destination_qpn;
  if (!headers.opcode) return true;
  const size_t deth_at = bth_at + Bth::kBytes;
  if (end - deth_at < transport::ExtensionBytes(*headers.opcode)) return false;
  if (!headers.IsDatagram()) return true;
  headers.source_qpn = transport::ParseDeth(head.at(deth_at)).source_qpn;
  // A MAD is the whole payload, and comes without immediate data.
  const size_t mad_at = deth_at + transport::Deth::kBytes;
  const bool is_mad = headers.destination_qpn == kManagementQpn &&
                      !headers.opcode->HasImmediate() && end - mad_at == transport::kMadBytes;
  if (!is_mad) return true;
  headers.cm = transport::cm::Steering::Parse(head.at(mad_at));
  if (!headers.cm) headers.peer_query = transport::ParsePeerQuery(head.at(mad_at));
  return true;
}

}  // namespace

FrameHead::FrameHead(std::span<const uint8_t> frame) {
  CopyHead(frame.data(), std::min(frame.size(), kBytes), bytes_.data());
}

void FrameHead::WriteFrame(std::span<const uint8_t> frame, uint8_t* out) const {
  CopyHead(bytes_.data(), std::min(frame.size(), kBytes), out);
  if (frame.size() > kBytes) {
    std::memcpy(out + kBytes, frame.data() + kBytes, frame.size() - kBytes);
  }
}

FrameKind Classify(const FrameHead& head, size_t frame_bytes, RoceHeaders* headers) {
  const std::span<const uint8_t> begin(head.at(0), std::min(frame_bytes, FrameHead::kBytes));
  const auto network = transport::ReadNetworkHeaders(begin);
  if (!network || !network->is_roce()) return FrameKind::kOther;
  const bool is_ipv6 = network->version == transport::IpVersion::kIpv6;
  if (!network->is_valid) return is_ipv6 ? FrameKind::kMalformed : FrameKind::kOther;
  static_cast<transport::Flow&>(*headers) = network->flow;
  headers->packet_end = network->end();
  constexpr size_t kLeastBytes = UdpHeader::kBytes + Bth::kBytes + transport::kIcrcBytes;
  const bool is_whole =
      network->is_whole() && network->end() <= frame_bytes && network->udp_bytes >= kLeastBytes;
  return is_whole && ReadTransport(head, network->bth_at(), network->end() - transport::kIcrcBytes,
                                   *headers)
             ? FrameKind::kRoce
             : FrameKind::kMalformed;
}

}  // namespace uroce::nic
