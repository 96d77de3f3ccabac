#include "transport/qp/reply_queue.h"

#include <algorithm>

namespace uroce::transport {

void ReplyQueue::Reserve(uint32_t resources) {
  replies_.reserve(size_t{2} * resources);  // as many replays as originals
  atomics_.reserve(resources);
}

void ReplyQueue::Configure(uint32_t resources) {
  resources_ = resources;
  originals_ = 0;
  replies_.clear();
  atomics_.assign(resources, AtomicResult{});
  next_atomic_ = 0;
}

void ReplyQueue::Resize(uint32_t resources) {
  // Oldest first, and no more than there is room for.
  std::rotate(atomics_.begin(), atomics_.begin() + next_atomic_, atomics_.end());
  const size_t held = std::min<size_t>(atomics_.size(), resources);
  atomics_.erase(atomics_.begin(), atomics_.end() - static_cast<ptrdiff_t>(held));
  atomics_.resize(resources);
  next_atomic_ = held == resources ? 0 : static_cast<uint32_t>(held);
  resources_ = resources;
}

void ReplyQueue::Push(const Reply& reply) {
  replies_.push_back(reply);
  ++originals_;
}

void ReplyQueue::PopFront() {
  if (!replies_.front().is_replay) --originals_;
  replies_.erase(replies_.begin());
}

bool ReplyQueue::PushReplay(const Reply& reply) {
  for (Reply& waiting : replies_) {
    if (waiting.is_atomic == reply.is_atomic && waiting.end_psn == reply.end_psn) {
      const bool is_still_to_come = waiting.next_psn.IsBefore(reply.first_psn);
      if (is_still_to_come) return true;
      const bool was_replay = waiting.is_replay;
      waiting = reply;
      waiting.is_replay = was_replay;
      return true;
    }
  }
  if (replies_.size() >= size_t{2} * resources_) return false;
  const auto later = std::find_if(replies_.begin(), replies_.end(), [&](const Reply& waiting) {
    return waiting.next_psn.IsAfter(reply.first_psn);
  });
  replies_.insert(later, reply);
  return true;
}

void ReplyQueue::RememberAtomic(Psn psn, uint64_t result) {
  for (AtomicResult& atomic : atomics_) {
    if (atomic.psn == psn) atomic.valid = false;  // from 2^24 packets ago
  }
  atomics_[next_atomic_] = {true, psn, result};
  next_atomic_ = (next_atomic_ + 1) % static_cast<uint32_t>(atomics_.size());
}

const uint64_t* ReplyQueue::FindAtomic(Psn psn) const {
  for (const AtomicResult& atomic : atomics_) {
    if (atomic.valid && atomic.psn == psn) return &atomic.result;
  }
  return nullptr;
}

}  // namespace uroce::transport
