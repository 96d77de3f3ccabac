#include "transport/qp/deadline_queue.h"

namespace uroce::transport {

// `deadline` is earlier than the client's key in the heap.
void DeadlineQueue::Advance(DeadlineClient& client, Time deadline) {
  client.scheduled_ = deadline;
  if (client.heap_index_ == DeadlineClient::kNotQueued) {
    heap_.push_back(nullptr);
    Place(heap_.size() - 1, &client);
  }
  SiftUp(client.heap_index_);
}

void DeadlineQueue::Remove(DeadlineClient& client) {
  const size_t index = client.heap_index_;
  if (index == DeadlineClient::kNotQueued) return;
  DeadlineClient* last = heap_.back();
  heap_.pop_back();
  client.heap_index_ = DeadlineClient::kNotQueued;
  client.deadline_ = client.scheduled_ = kNever;
  if (last == &client) return;
  Place(index, last);
  SiftUp(index);
  SiftDown(last->heap_index_);
}

void DeadlineQueue::RunDue(Time now) {
  while (!heap_.empty() && heap_.front()->scheduled_ <= now) {
    DeadlineClient& client = *heap_.front();
    if (client.deadline_ <= now) {
      Remove(client);
      client.OnDeadline(now);
    } else if (client.deadline_ == kNever) {
      Remove(client);
    } else {
      client.scheduled_ = client.deadline_;
      SiftDown(0);
    }
  }
}

void DeadlineQueue::Place(size_t index, DeadlineClient* client) {
  heap_[index] = client;
  client->heap_index_ = index;
}

void DeadlineQueue::SiftUp(size_t index) {
  DeadlineClient* client = heap_[index];
  while (index > 0) {
    const size_t parent = (index - 1) / 2;
    if (heap_[parent]->scheduled_ <= client->scheduled_) break;
    Place(index, heap_[parent]);
    index = parent;
  }
  Place(index, client);
}

void DeadlineQueue::SiftDown(size_t index) {
  DeadlineClient* client = heap_[index];
  for (;;) {
    size_t child = 2 * index + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && heap_[child + 1]->scheduled_ < heap_[child]->scheduled_) {
      ++child;
    }
    if (client->scheduled_ <= heap_[child]->scheduled_) break;
    Place(index, heap_[child]);
    index = child;
  }
  Place(index, client);
}

}  // namespace uroce::transport
