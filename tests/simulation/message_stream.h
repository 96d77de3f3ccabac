#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "tests/simulation/message.h"

namespace uroce::transport::simulation {

// The messages from one queue pair to another, in the order they were posted in, and which of them
// may arrive next.
class MessageStream {
 public:
  enum class Service {
    kReliable,   // all, in order, each once
    kOrdered,    // some, in order, each at most once: what an unreliable service makes of a wire
                 // that only loses
    kScrambled,  // ... of a wire that doubles and reorders: some, in any order, any number of times
  };

  explicit MessageStream(Service service) : service_(service) {}

  Service service() const { return service_; }

  // Returns its number.
  size_t Add(Message message);
  // It was never sent after all.
  void Cancel(size_t number) { messages_[number].cancelled = true; }

  // kReliable: the message that comes next; nullptr if none was posted.
  const Message* Next() const;
  // Takes the oldest message that may arrive now and of which `fits` is true; nullptr if there is
  // none. The oldest leaves most for those to come: if any choice explains them all, this does.
  const Message* Take(const std::function<bool(const Message&)>& fits);

  // Messages that have not arrived and were not cancelled.
  size_t missing() const;

 private:
  struct Entry {
    Message message;
    bool cancelled = false;
    bool arrived = false;
  };
  Service service_;
  std::vector<Entry> messages_;
  size_t next_ = 0;  // kReliable and kOrdered: what is before has arrived or never will
};

}  // namespace uroce::transport::simulation
