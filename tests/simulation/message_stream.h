#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "tests/simulation/message.h"

namespace uroce::transport::simulation {

// The messages from one queue pair to another in posting order, and which of them may arrive next.
class MessageStream {
 public:
  enum class Service {
    kReliable,   // all, in order, each once
    kOrdered,    // some, in order, each at most once: an unreliable service on a wire that only
                 // loses
    kScrambled,  // some, any order, any number of times: ... on a wire that doubles and reorders
  };

  explicit MessageStream(Service service) : service_(service) {}

  Service service() const { return service_; }

  // Returns the number of the message.
  size_t Add(Message message);
  // The message was not sent after all.
  void Cancel(size_t number) { messages_[number].cancelled = true; }

  // kReliable: the next message to arrive; nullptr if none was posted.
  const Message* Next() const;
  // Takes the oldest message that may arrive now and that `fits`; nullptr if there is none. The
  // oldest leaves the most for later arrivals: if any choice explains them all, this one does. On a
  // scrambled stream one that has arrived is taken again only if no other fits.
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
  size_t next_ = 0;  // kReliable and kOrdered: earlier messages arrived or never will
};

}  // namespace uroce::transport::simulation
