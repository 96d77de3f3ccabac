#include "tests/fuzz/ring_model.h"

#include <algorithm>
#include <cstring>

namespace uroce::nic {
namespace {

constexpr uint64_t kPublishInterval = 8;
constexpr size_t kSmallFrameBytes = 512;  // as the ring has it
constexpr size_t kPageBytes = 4'096;

}  // namespace

RingModel::RingModel(const RingMemory& memory, int side)
    : real_(memory), side_(side), other_(1 - side) {
  // The memory ends with the second ring.
  const size_t ring_bytes = SlotOffset(1, 0) - SlotOffset(0, 0);
  memory_.resize(2 * ring_bytes);
}

uint8_t* RingModel::RealBytes() const { return reinterpret_cast<uint8_t*>(real_.ring(0).control); }

void RingModel::Reset() {
  for (const size_t page : written_) {
    std::fill_n(memory_.begin() + static_cast<ptrdiff_t>(page * kPageBytes), kPageBytes,
                uint8_t{0});
    memset(RealBytes() + page * kPageBytes, 0, kPageBytes);
  }
  written_.clear();
  received_ = published_ = sent_ = consumer_ = 0;
  next_offset_ = SlotWord::kNearOffset;
  has_committed_ = is_receiver_broken_ = is_sender_broken_ = false;
}

size_t RingModel::SlotOffset(int ring, uint64_t position) const {
  return static_cast<size_t>(real_.ring(ring).slot(position) - RealBytes());
}

size_t RingModel::PositionOffset(int ring) const {
  const auto* at = reinterpret_cast<const uint8_t*>(&real_.ring(ring).control->consumer_position);
  return static_cast<size_t>(at - RealBytes());
}

size_t RingModel::AsleepOffset(int ring) const {
  const auto* at = reinterpret_cast<const uint8_t*>(&real_.ring(ring).control->consumer_asleep);
  return static_cast<size_t>(at - RealBytes());
}

template <class T>
void RingModel::Store(size_t offset, T value) {
  OnForeignWrite(offset, {reinterpret_cast<const uint8_t*>(&value), sizeof value});
}

void RingModel::OnForeignWrite(size_t offset, std::span<const uint8_t> bytes) {
  for (size_t page = offset / kPageBytes; page * kPageBytes < offset + bytes.size(); ++page) {
    written_.push_back(page);
  }
  std::copy(bytes.begin(), bytes.end(), memory_.begin() + static_cast<ptrdiff_t>(offset));
}

SlotWord RingModel::NextWord() const {
  return SlotWord(Load<uint16_t>(SlotOffset(other_, received_)));
}

void RingModel::PublishPosition() {
  if (published_ == received_) return;
  published_ = received_;
  Store<uint64_t>(PositionOffset(other_), received_);
}

std::optional<RingModel::Frame> RingModel::Receive() {
  if (is_receiver_broken_) return std::nullopt;
  const SlotWord word = NextWord();
  if (!word.IsPublishedAt(received_)) {
    PublishPosition();
    return std::nullopt;
  }
  is_receiver_broken_ = word.frame_bytes() == 0 || word.offset() + word.frame_bytes() > kSlotBytes;
  if (is_receiver_broken_) return std::nullopt;
  return Frame{SlotOffset(other_, received_) + word.offset(), word.frame_bytes()};
}

void RingModel::Release() {
  ++received_;
  if (received_ - published_ == kPublishInterval) PublishPosition();
}

std::optional<RingModel::Frame> RingModel::Acquire() {
  if (sent_ - consumer_ >= kSlots) {
    const auto consumer = Load<uint64_t>(PositionOffset(side_));
    const bool is_possible = consumer <= sent_ && sent_ - consumer <= kSlots;
    if (!is_possible) is_sender_broken_ = true;
    if (is_sender_broken_ || sent_ - consumer == kSlots) return std::nullopt;
    consumer_ = consumer;
  }
  return Frame{SlotOffset(side_, sent_) + next_offset_, kSlotBytes - next_offset_};
}

void RingModel::Commit(std::span<const uint8_t> frame) {
  const size_t slot = SlotOffset(side_, sent_);
  OnForeignWrite(slot + next_offset_, frame);
  Store<uint16_t>(slot, SlotWord(frame.size(), next_offset_, sent_).bits());
  ++sent_;
  next_offset_ =
      frame.size() <= kSmallFrameBytes ? SlotWord::kNearOffset : SlotWord::kAlignedOffset;
  has_committed_ = true;
}

bool RingModel::Flush() {
  PublishPosition();
  const bool wakes = has_committed_ && Load<uint32_t>(AsleepOffset(side_)) != 0;
  if (wakes) Store<uint32_t>(AsleepOffset(side_), 0);
  has_committed_ = false;
  return wakes;
}

bool RingModel::BeginSleep() {
  PublishPosition();
  const bool has_frame = !is_receiver_broken_ && NextWord().IsPublishedAt(received_);
  Store<uint32_t>(AsleepOffset(other_), has_frame ? 0 : 1);
  return !has_frame;
}

void RingModel::EndSleep() { Store<uint32_t>(AsleepOffset(other_), 0); }

bool RingModel::Matches() const { return memcmp(memory_.data(), RealBytes(), memory_.size()) == 0; }

}  // namespace uroce::nic
