#include "tests/system/network/traffic.h"

#include <algorithm>
#include <string_view>

#include "transport/wire/aeth.h"
#include "transport/wire/bth.h"
#include "transport/wire/byte_order.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/ipv6.h"
#include "transport/wire/opcode.h"
#include "transport/wire/udp.h"

namespace uroce::network {
namespace {

using namespace transport;

constexpr uint8_t kTcp = 6;
constexpr size_t kIcrcBytes = 4;
constexpr uint8_t kCongestionNotificationOpcode = 0x81;
constexpr uint8_t kEcnMask = 3;

uint16_t EtherType(std::span<const uint8_t> frame) {
  return Load16(&frame[EthernetHeader::kEtherTypeOffset]);
}

// The first byte that follows the IP header, and the protocol there. Options and extension headers
// are not looked through.
std::pair<size_t, uint8_t> BehindIp(std::span<const uint8_t> frame) {
  constexpr size_t kIp = EthernetHeader::kBytes;
  if (frame.size() >= kIp + Ipv4Header::kBytes && EtherType(frame) == EthernetHeader::kIpv4) {
    return {kIp + size_t{frame[kIp] & 15u} * 4, frame[kIp + 9]};
  }
  if (frame.size() >= kIp + Ipv6Header::kBytes && EtherType(frame) == EthernetHeader::kIpv6) {
    return {kIp + Ipv6Header::kBytes, frame[kIp + 6]};
  }
  return {0, 0};
}

constexpr std::string_view kTrafficNames[kTraffics] = {"roce", "tcp", "other"};
constexpr std::string_view kFateNames[kFates] = {"delivered", "queue_full", "lost", "path_down",
                                                 "too_long"};

}  // namespace

FrameKind KindOf(std::span<const uint8_t> frame) {
  const auto [offset, protocol] = BehindIp(frame);
  if (protocol == kTcp) return {Traffic::kTcp, {}};
  const bool is_roce = protocol == UdpHeader::kIpProtocol &&
                       frame.size() >= offset + UdpHeader::kBytes + Bth::kBytes + kIcrcBytes &&
                       Load16(&frame[offset + 2]) == UdpHeader::kRocePort;
  if (!is_roce) return {};
  return {Traffic::kRoce, frame.subspan(offset + UdpHeader::kBytes)};
}

bool Mark(std::span<uint8_t> frame) {
  constexpr size_t kIp = EthernetHeader::kBytes;
  if (EtherType(frame) == EthernetHeader::kIpv4) {
    uint8_t& traffic_class = frame[kIp + 1];
    if ((traffic_class & kEcnMask) == 0) return false;
    traffic_class |= kEcnMask;
    uint8_t* const checksum = &frame[kIp + ipv4_internal::kChecksumOffset];
    Store16(0, checksum);
    const uint16_t sum = ipv4_internal::ChecksumOf(&frame[kIp]);
    std::copy_n(reinterpret_cast<const uint8_t*>(&sum), sizeof sum, checksum);
    return true;
  }
  if (EtherType(frame) == EthernetHeader::kIpv6) {
    constexpr uint8_t kSecondByteMask = kEcnMask << 4;
    if ((frame[kIp + 1] & kSecondByteMask) == 0) return false;
    frame[kIp + 1] |= kSecondByteMask;
    return true;
  }
  return false;
}

// Whether no packet with this PSN or a later one was seen.
bool RoceStream::TakePsn(Psn psn) {
  if (highest_ && !psn.IsAfter(*highest_)) return false;
  highest_ = psn;
  return true;
}

void RoceStream::Count(std::span<const uint8_t> packet) {
  const Bth bth = ParseBth(packet.data());
  if (bth.opcode == kCongestionNotificationOpcode) {
    ++congestion_notifications;
    return;
  }
  const OpcodeRow& row = kOpcodeRows[bth.opcode];
  if (!row.is_known) return;
  if (row.has_payload) {
    const size_t headers = Bth::kBytes + row.extension_bytes + bth.pad_count + kIcrcBytes;
    const size_t payload = packet.size() - std::min(packet.size(), headers);
    const bool is_fresh = row.opcode.HasDeth() || TakePsn(bth.psn);
    fresh_packets += is_fresh;
    resent_packets += !is_fresh;
    fresh_bytes += is_fresh ? payload : 0;
  } else if (row.opcode.operation == Operation::kReadRequest) {
    TakePsn(bth.psn) ? ++read_requests : ++read_requests_again;
  } else if (row.opcode.operation == Operation::kAcknowledge) {
    const Syndrome syndrome = ParseAeth(&packet[Bth::kBytes]).syndrome;
    const bool is_ack = syndrome.kind() == Syndrome::Kind::kAck;
    const bool is_sequence_nak = syndrome == Syndrome::Nak(NakCode::kPsnSequenceError);
    acks += is_ack;
    sequence_naks += is_sequence_nak;
    other_naks += !is_ack && !is_sequence_nak;
  }
}

void TrafficCounters::Count(size_t host, const FrameKind& kind, size_t frame_bytes, Fate fate,
                            bool is_marked, uint64_t backlog_bytes) {
  ++fates_[static_cast<size_t>(fate)];
  marked_ += is_marked;
  longest_queue_bytes_ = std::max(longest_queue_bytes_, backlog_bytes);
  Volume& volume = volumes_[{host, kind.traffic}];
  ++volume.frames_in;
  volume.bytes_in += frame_bytes;
  if (fate == Fate::kDelivered) {
    ++volume.frames_out;
    volume.bytes_out += frame_bytes;
  }
  if (kind.traffic != Traffic::kRoce) return;
  streams_[{host, ParseBth(kind.packet.data()).destination_qpn.value}].Count(kind.packet);
}

void TrafficCounters::Print(std::ostream& out) const {
  out << "{\"marked\":" << marked_ << ",\"longest_queue\":" << longest_queue_bytes_;
  for (size_t i = 0; i < kFates; ++i) out << ",\"" << kFateNames[i] << "\":" << fates_[i];
  out << ",\"traffic\":[";
  const char* separator = "";
  for (const auto& [key, volume] : volumes_) {
    out << separator << "{\"host\":" << key.first << ",\"kind\":\""
        << kTrafficNames[static_cast<size_t>(key.second)] << "\",\"frames_in\":" << volume.frames_in
        << ",\"bytes_in\":" << volume.bytes_in << ",\"frames_out\":" << volume.frames_out
        << ",\"bytes_out\":" << volume.bytes_out << "}";
    separator = ",";
  }
  out << "],\"streams\":[";
  separator = "";
  for (const auto& [key, stream] : streams_) {
    out << separator << "{\"host\":" << key.first << ",\"qpn\":" << key.second
        << ",\"fresh_packets\":" << stream.fresh_packets
        << ",\"resent_packets\":" << stream.resent_packets
        << ",\"fresh_bytes\":" << stream.fresh_bytes
        << ",\"read_requests\":" << stream.read_requests
        << ",\"read_requests_again\":" << stream.read_requests_again << ",\"acks\":" << stream.acks
        << ",\"sequence_naks\":" << stream.sequence_naks << ",\"other_naks\":" << stream.other_naks
        << ",\"congestion_notifications\":" << stream.congestion_notifications << "}";
    separator = ",";
  }
  out << "]}";
}

}  // namespace uroce::network
