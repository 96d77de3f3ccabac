#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "transport/completion.h"
#include "transport/work_request.h"

namespace uroce::transport {

// Records every posted work request, and checks that it completes once, in the order of its queue,
// and after an error only as flushed. A work request id names its queue.
class VerbsLedger {
 public:
  // The requests of one queue: of a send or receive queue from one RESET to the next, or of a
  // shared receive queue.
  using Account = uint32_t;
  enum class Kind : uint8_t { kSend, kReceive, kShared };

  Account Open(Kind kind);
  // The id to post the next request of the account with.
  uint64_t NextId(Account account) const;
  // The request was accepted.
  void OnPosted(Account account, bool signaled, uint64_t bytes);
  // How many requests have not completed, as far as can be told: an unsignaled request completes
  // silently.
  size_t outstanding(Account account) const { return books_[account].entries.size(); }
  void OnCompletion(const Completion& completion);
  // The send queue works again after an error (SQE -> RTS).
  void Recover(Account account) { ++books_[account].recoveries; }
  // The queue pair was flushed and all its completions polled: no request may be left.
  void RequireComplete(Account account) const;

 private:
  struct Entry {
    uint32_t number = 0;
    uint32_t recoveries = 0;  // recoveries of the queue before it was posted
    bool signaled = true;
    uint64_t bytes = 0;
  };
  struct Book {
    Kind kind = Kind::kSend;
    uint32_t posted = 0;
    uint32_t recoveries = 0;
    std::optional<uint32_t> failed_after;  // recoveries before the last error
    std::deque<Entry> entries;
  };

  static constexpr int kAccountShift = 32;

  std::vector<Book> books_;
};

}  // namespace uroce::transport
