#include "transport/qp/transmit_queue.h"

#include "transport/limits.h"

namespace uroce::transport {

void TransmitQueue::Add(TransmitClient& client) {
  if (client.queued_) return;
  client.queued_ = true;
  client.previous_ = tail_;
  client.next_ = nullptr;
  (tail_ == nullptr ? head_ : tail_->next_) = &client;
  tail_ = &client;
}

void TransmitQueue::Remove(TransmitClient& client) {
  if (!client.queued_) return;
  if (head_ == &client) frames_this_turn_ = 0;
  (client.previous_ == nullptr ? head_ : client.previous_->next_) = client.next_;
  (client.next_ == nullptr ? tail_ : client.next_->previous_) = client.previous_;
  client.queued_ = false;
}

bool TransmitQueue::OwesReply() const {
  int asked = 0;
  for (const TransmitClient* client = head_; client != nullptr; client = client->next_) {
    if (++asked > kMostAsked || client->OwesReply()) return true;
  }
  return false;
}

size_t TransmitQueue::BuildFrame(Time now, const FrameRoom& out) {
  while (head_ != nullptr) {
    TransmitClient& client = *head_;
    const size_t frame_bytes = client.BuildFrame(now, out);
    const bool stays = head_ == &client;
    if (frame_bytes == 0) {
      if (stays) Remove(client);
      continue;
    }
    if (stays && ++frames_this_turn_ >= kTransmitQuantum) {
      Remove(client);
      Add(client);
    }
    return frame_bytes;
  }
  return 0;
}

}  // namespace uroce::transport
