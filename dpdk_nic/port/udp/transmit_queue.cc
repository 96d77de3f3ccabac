#include "dpdk_nic/port/udp/transmit_queue.h"

#include <algorithm>
#include <cstring>

#include "transport/wire/bth.h"
#include "transport/wire/byte_order.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/icrc.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/ipv6.h"
#include "transport/wire/udp.h"

namespace uroce::nic {
namespace {

using transport::EthernetHeader;
using transport::Gid;
using transport::Ipv4Header;
using transport::Ipv6Header;
using transport::UdpHeader;

constexpr size_t kIp = EthernetHeader::kBytes;
constexpr size_t kMinPayloadBytes = transport::Bth::kBytes + transport::kIcrcBytes;

// Reads the IP header; returns the bytes of UDP behind it, 0 if the header is wrong.
size_t ReadIp(std::span<const uint8_t> frame, OutgoingFrame* out) {
  const uint16_t ether_type = transport::Load16(&frame[EthernetHeader::kEtherTypeOffset]);
  const size_t ip_bytes = frame.size() - kIp;
  if (ether_type == EthernetHeader::kIpv4) {
    const auto ip = transport::ParseIpv4(&frame[kIp]);
    if (!ip || ip->protocol != UdpHeader::kIpProtocol || ip->total_length != ip_bytes) return 0;
    out->source = Gid::FromIpv4(ip->source);
    out->destination = Gid::FromIpv4(ip->destination);
    out->traffic_class = ip->traffic_class;
    out->hop_limit = ip->time_to_live;
    out->covered.identification = ip->identification;
    return ip_bytes - Ipv4Header::kBytes;
  }
  if (ether_type != EthernetHeader::kIpv6) return 0;
  const auto ip = transport::ParseIpv6(&frame[kIp]);
  const bool is_udp = ip && ip->next_header == UdpHeader::kIpProtocol;
  if (!is_udp || ip->payload_length + Ipv6Header::kBytes != ip_bytes) return 0;
  out->source = Gid{ip->source};
  out->destination = Gid{ip->destination};
  out->traffic_class = ip->traffic_class;
  out->hop_limit = ip->hop_limit;
  const bool is_mapped = out->source.IsIpv4Mapped() || out->destination.IsIpv4Mapped();
  return is_mapped ? 0 : ip->payload_length;
}

}  // namespace

bool OutgoingFrame::SharesCallWith(const OutgoingFrame& other) const {
  return destination == other.destination && source == other.source &&
         traffic_class == other.traffic_class && hop_limit == other.hop_limit;
}

std::optional<OutgoingFrame> ReadOutgoingFrame(std::span<const uint8_t> frame) {
  constexpr size_t kShortest =
      kIp + Ipv4Header::kBytes + UdpHeader::kBytes + kMinPayloadBytes;  // IPv6: longer by 20
  if (frame.size() < kShortest) return std::nullopt;
  OutgoingFrame out;
  const size_t udp_bytes = ReadIp(frame, &out);
  if (udp_bytes < UdpHeader::kBytes + kMinPayloadBytes || udp_bytes % 4 != 0) return std::nullopt;
  const size_t udp_at = frame.size() - udp_bytes;
  const UdpHeader udp = transport::ParseUdp(&frame[udp_at]);
  if (udp.destination_port != UdpHeader::kRocePort || udp.length != udp_bytes) return std::nullopt;
  out.covered.source_port = udp.source_port;
  out.payload_at = udp_at + UdpHeader::kBytes;
  out.payload_bytes = static_cast<uint16_t>(udp_bytes - UdpHeader::kBytes);
  return out;
}

std::span<uint8_t> TransmitQueue::Room() {
  if (first_ + count_ == kFrames) return {};
  uint8_t* const kept = bytes_.data() + end_ - kMaxHeaderBytes;
  if (!has_room_) std::memcpy(kept_.data(), kept, kMaxHeaderBytes);
  has_room_ = true;
  return std::span(bytes_).subspan(end_ - header_bytes_, transport::kMaxFrameBytes);
}

void TransmitQueue::CloseRoom() {
  if (!has_room_) return;
  has_room_ = false;
  std::memcpy(bytes_.data() + end_ - kMaxHeaderBytes, kept_.data(), kMaxHeaderBytes);
}

// Most frames of a message have the headers of the one before.
std::optional<OutgoingFrame> TransmitQueue::Read(std::span<const uint8_t> frame) {
  const bool is_alike = frame.size() == last_frame_bytes_ &&
                        std::memcmp(frame.data(), last_headers_.data(), last_.payload_at) == 0;
  if (is_alike) return last_;
  const auto read = ReadOutgoingFrame(frame);
  if (!read) return std::nullopt;
  last_ = *read;
  last_frame_bytes_ = frame.size();
  std::copy_n(frame.data(), read->payload_at, last_headers_.data());
  return read;
}

bool TransmitQueue::Commit(size_t frame_bytes) {
  const size_t at = end_ - header_bytes_;
  const auto frame = Read(std::span(bytes_).subspan(at, frame_bytes));
  if (!frame) {
    CloseRoom();
    return false;
  }
  const uint8_t* const payload = &bytes_[at + frame->payload_at];
  if (frame->payload_at != header_bytes_) {  // the first of another IP version
    std::memmove(&bytes_[end_], payload, frame->payload_bytes);
    header_bytes_ = frame->payload_at;
  }
  CloseRoom();
  slots_[first_ + count_] = {*frame, end_};
  end_ += frame->payload_bytes;
  ++count_;
  return true;
}

std::span<const uint8_t> TransmitQueue::payloads(size_t index, size_t frames) const {
  const Slot& last = slots_[first_ + index + frames - 1];
  const size_t begin = slots_[first_ + index].at;
  return std::span(bytes_).subspan(begin, last.at + last.frame.payload_bytes - begin);
}

size_t TransmitQueue::RunAt(size_t index, bool may_segment) const {
  if (!may_segment) return 1;
  const OutgoingFrame& first = frame(index);
  size_t bytes = first.payload_bytes;
  size_t end = index + 1;
  while (end < count_) {
    const OutgoingFrame& next = frame(end);
    if (next.payload_bytes > first.payload_bytes || !next.SharesCallWith(first)) break;
    bytes += next.payload_bytes;
    if (bytes > kMaxCallBytes) break;
    ++end;
    if (next.payload_bytes < first.payload_bytes) break;  // a shorter frame is the last
  }
  return end - index;
}

// The kernel numbers the packets of a call from 0 (an unconnected socket that must not fragment).
// The ICRC is linear: the change for a number is the XOR of the changes for its bits.
void TransmitQueue::Seal(size_t index, size_t frames, uint16_t source_port) {
  const OutgoingFrame first = frame(index);
  const auto change_of = [&](const OutgoingFrame& of, size_t number) {
    const CoveredFields now = {static_cast<uint16_t>(number), source_port};
    return IcrcChange(of.covered, now, UdpHeader::kBytes + of.payload_bytes);
  };
  std::array<uint32_t, kFrames> changes;  // of frames like the first
  for (size_t i = 0; i < frames; ++i) {
    const size_t number = first.is_ipv6() ? 0 : i;
    const size_t without_a_bit = number & (number - 1);
    if (without_a_bit != 0) {
      changes[i] = changes[0] ^ changes[without_a_bit] ^ changes[number ^ without_a_bit];
    } else {
      changes[i] = i != 0 && number == 0 ? changes[0] : change_of(first, number);
    }
    Slot& slot = slots_[first_ + index + i];
    const bool is_like_first =
        slot.frame.covered == first.covered && slot.frame.payload_bytes == first.payload_bytes;
    const uint32_t change = is_like_first ? changes[i] : change_of(slot.frame, number);
    slot.frame.covered = {static_cast<uint16_t>(number), source_port};
    uint8_t* icrc = &bytes_[slot.at + slot.frame.payload_bytes - transport::kIcrcBytes];
    for (int byte = 0; byte < 4; ++byte) {
      icrc[byte] = static_cast<uint8_t>(icrc[byte] ^ change >> (8 * byte));
    }
  }
}

void TransmitQueue::Drop(size_t frames) {
  first_ += frames;
  count_ -= frames;
  if (count_ != 0) return;
  first_ = 0;
  end_ = kMaxHeaderBytes;
}

}  // namespace uroce::nic
