#include "dpdk_nic/port/fabric/waiting_frames.h"

#include <algorithm>

namespace uroce::nic {

WaitingFrames::WaitingFrames() : slots_(new Slot[kMaxFrames]) {}

bool WaitingFrames::Add(Queue& queue, std::span<const uint8_t> frame) {
  if (IsFull(queue)) return false;
  uint16_t index;
  if (free_count_ != 0) {
    index = first_free_;
    first_free_ = slots_[index].next;
    --free_count_;
  } else {
    index = static_cast<uint16_t>(used_slots_++);
  }
  Slot& slot = slots_[index];
  slot.frame_bytes = static_cast<uint16_t>(frame.size());
  std::copy(frame.begin(), frame.end(), slot.bytes.begin());
  (queue.count_ == 0 ? queue.first_ : slots_[queue.last_].next) = index;
  queue.last_ = index;
  ++queue.count_;
  return true;
}

std::span<const uint8_t> WaitingFrames::Front(const Queue& queue) const {
  const Slot& slot = slots_[queue.first_];
  return {slot.bytes.data(), slot.frame_bytes};
}

void WaitingFrames::RemoveFront(Queue& queue) {
  const uint16_t index = queue.first_;
  queue.first_ = slots_[index].next;
  --queue.count_;
  slots_[index].next = first_free_;
  first_free_ = index;
  ++free_count_;
}

size_t WaitingFrames::RemoveAll(Queue& queue) {
  const size_t count = queue.size();
  while (!queue.empty()) RemoveFront(queue);
  return count;
}

}  // namespace uroce::nic
