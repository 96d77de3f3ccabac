#include "dpdk_nic/port/udp/transmit_queue.h"

#include <algorithm>
#include <cstring>

#include "transport/wire/encapsulation.h"
#include "transport/wire/icrc.h"
#include "transport/wire/udp.h"

namespace uroce::nic {

bool OutgoingPacket::SharesCallWith(const OutgoingPacket& other) const {
  return flow.destination == other.flow.destination && flow.source == other.flow.source &&
         flow.traffic_class == other.flow.traffic_class && flow.hop_limit == other.flow.hop_limit;
}

transport::FrameRoom TransmitQueue::Room() {
  if (first_ + count_ == kPackets) return {};
  const transport::FrameRoom room = built();
  room.flow->destination = {};
  return room;
}

transport::FrameRoom TransmitQueue::built() {
  const std::span<uint8_t> bytes(bytes_);
  transport::FrameRoom room(bytes.subspan(end_, transport::kMaxFrameBytes));
  room.flow = &slots_[first_ + count_].packet.flow;
  return room;
}

bool TransmitQueue::Commit(size_t frame_bytes) {
  Slot& slot = slots_[first_ + count_];
  OutgoingPacket& packet = slot.packet;
  if (packet.flow.destination.IsZero()) return false;
  const size_t payload_bytes = frame_bytes - transport::NetworkHeaderBytes(packet.flow);
  packet.payload_bytes = static_cast<uint16_t>(payload_bytes);
  packet.covered = {0, packet.flow.source_port};
  slot.at = end_;
  end_ += payload_bytes;
  ++count_;
  return true;
}

std::span<const uint8_t> TransmitQueue::payloads(size_t index, size_t packets) const {
  const Slot& last = slots_[first_ + index + packets - 1];
  const size_t begin = slots_[first_ + index].at;
  return std::span(bytes_).subspan(begin, last.at + last.packet.payload_bytes - begin);
}

size_t TransmitQueue::RunAt(size_t index, bool may_segment) const {
  if (!may_segment) return 1;
  const OutgoingPacket& first = packet(index);
  size_t bytes = first.payload_bytes;
  size_t end = index + 1;
  while (end < count_) {
    const OutgoingPacket& next = packet(end);
    if (next.payload_bytes > first.payload_bytes || !next.SharesCallWith(first)) break;
    bytes += next.payload_bytes;
    if (bytes > kMaxCallBytes) break;
    ++end;
    if (next.payload_bytes < first.payload_bytes) break;  // a shorter packet is the last
  }
  return end - index;
}

// The kernel numbers the packets of a call from 0 (an unconnected socket that must not fragment).
// The ICRC is linear: the change for a number is the XOR of the changes for its bits.
void TransmitQueue::Seal(size_t index, size_t packets, uint16_t source_port) {
  const OutgoingPacket first = packet(index);
  const auto change_of = [&](const OutgoingPacket& of, size_t number) {
    const CoveredFields now = {static_cast<uint16_t>(number), source_port};
    return IcrcChange(of.covered, now, transport::UdpHeader::kBytes + of.payload_bytes);
  };
  std::array<uint32_t, kPackets> changes;  // of packets like the first
  for (size_t i = 0; i < packets; ++i) {
    const size_t number = first.flow.is_ipv6() ? 0 : i;
    const size_t without_a_bit = number & (number - 1);
    if (without_a_bit != 0) {
      changes[i] = changes[0] ^ changes[without_a_bit] ^ changes[number ^ without_a_bit];
    } else {
      changes[i] = i != 0 && number == 0 ? changes[0] : change_of(first, number);
    }
    Slot& slot = slots_[first_ + index + i];
    const bool is_like_first =
        slot.packet.covered == first.covered && slot.packet.payload_bytes == first.payload_bytes;
    const uint32_t change = is_like_first ? changes[i] : change_of(slot.packet, number);
    slot.packet.covered = {static_cast<uint16_t>(number), source_port};
    uint8_t* icrc = &bytes_[slot.at + slot.packet.payload_bytes - transport::kIcrcBytes];
    for (int byte = 0; byte < 4; ++byte) {
      icrc[byte] = static_cast<uint8_t>(icrc[byte] ^ change >> (8 * byte));
    }
  }
}

void TransmitQueue::Drop(size_t packets) {
  first_ += packets;
  count_ -= packets;
  if (count_ != 0) return;
  first_ = 0;
  end_ = 0;
}

}  // namespace uroce::nic
