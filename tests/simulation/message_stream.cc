#include "tests/simulation/message_stream.h"

#include <algorithm>
#include <utility>

namespace uroce::transport::simulation {

size_t MessageStream::Add(Message message) {
  messages_.push_back({std::move(message)});
  return messages_.size() - 1;
}

const Message* MessageStream::Next() const {
  return next_ < messages_.size() ? &messages_[next_].message : nullptr;
}

const Message* MessageStream::Take(const std::function<bool(const Message&)>& fits) {
  const bool scrambled = service_ == Service::kScrambled;
  const Message* again = nullptr;
  for (size_t i = scrambled ? 0 : next_; i < messages_.size(); ++i) {
    Entry& entry = messages_[i];
    if (!entry.cancelled && fits(entry.message)) {
      if (!entry.arrived) {
        entry.arrived = true;
        next_ = i + 1;
        return &entry.message;
      }
      again = &entry.message;  // unless a later one reads the same
    }
    if (service_ == Service::kReliable) return nullptr;
  }
  return again;
}

size_t MessageStream::missing() const {
  return static_cast<size_t>(
      std::count_if(messages_.begin(), messages_.end(),
                    [](const Entry& entry) { return !entry.arrived && !entry.cancelled; }));
}

}  // namespace uroce::transport::simulation
