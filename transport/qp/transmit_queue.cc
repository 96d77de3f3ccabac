#include "transport/qp/transmit_queue.h"

#include "transport/limits.h"

namespace uroce::transport {

void TransmitQueue::Add(TransmitClient& client) {
  if (client.queued_) return;
  client.queued_ = true;
  client.next_ = nullptr;
  (tail_ == nullptr ? head_ : tail_->next_) = &client;
  tail_ = &client;
}

void TransmitQueue::Remove(TransmitClient& client) {
  if (!client.queued_) return;
  if (head_ == &client) return PopFront();
  TransmitClient* before = head_;
  while (before->next_ != &client) before = before->next_;
  before->next_ = client.next_;
  if (tail_ == &client) tail_ = before;
  client.queued_ = false;
}

size_t TransmitQueue::BuildFrame(Time now, std::span<uint8_t> out) {
  while (head_ != nullptr) {
    TransmitClient& client = *head_;
    const size_t frame_bytes = client.BuildFrame(now, out);
    const bool stays = head_ == &client;
    if (frame_bytes == 0) {
      if (stays) PopFront();
      continue;
    }
    if (stays && ++frames_this_turn_ >= kTransmitQuantum) {
      PopFront();
      Add(client);
    }
    return frame_bytes;
  }
  return 0;
}

void TransmitQueue::PopFront() {
  TransmitClient* client = head_;
  head_ = client->next_;
  if (head_ == nullptr) tail_ = nullptr;
  client->queued_ = false;
  frames_this_turn_ = 0;
}

}  // namespace uroce::transport
