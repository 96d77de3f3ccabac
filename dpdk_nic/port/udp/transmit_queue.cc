#include "dpdk_nic/port/udp/transmit_queue.h"

#include <algorithm>
#include <cstring>

#include "transport/wire/encapsulation.h"
#include "transport/wire/icrc.h"
#include "transport/wire/udp.h"

namespace uroce::nic {

bool OutgoingFrame::SharesCallWith(const OutgoingFrame& other) const {
  return flow.destination == other.flow.destination && flow.source == other.flow.source &&
         flow.traffic_class == other.flow.traffic_class && flow.hop_limit == other.flow.hop_limit;
}

std::optional<OutgoingFrame> ReadOutgoingFrame(std::span<const uint8_t> frame) {
  const auto headers = transport::FindRocePacket(frame);
  const bool may_leave = headers && headers->is_whole() && headers->end() == frame.size() &&
                         headers->udp_bytes % 4 == 0;
  if (!may_leave) return std::nullopt;
  return OutgoingFrame{
      .flow = headers->flow,
      .payload_at = headers->bth_at(),
      .payload_bytes = static_cast<uint16_t>(headers->udp_bytes - transport::UdpHeader::kBytes),
      .covered = {headers->identification, headers->flow.source_port}};
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
    return IcrcChange(of.covered, now, transport::UdpHeader::kBytes + of.payload_bytes);
  };
  std::array<uint32_t, kFrames> changes;  // of frames like the first
  for (size_t i = 0; i < frames; ++i) {
    const size_t number = first.flow.is_ipv6() ? 0 : i;
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
