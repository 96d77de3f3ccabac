#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "tests/simulation/arena.h"
#include "tests/simulation/layout.h"
#include "tests/simulation/message.h"
#include "tests/simulation/verdict.h"
#include "transport/completion.h"

namespace uroce::simulation {

// The oracle of a receive queue: which message each receive request must get, and what its memory
// must look like then.
class ReceiveModel {
 public:
  // With `lenient` only the order and number of completions is checked.
  ReceiveModel(Verdict& verdict, Arena& arena, RingAllocator& allocator, bool lenient)
      : verdict_(verdict), arena_(arena), allocator_(allocator), lenient_(lenient) {}

  // A receive request was posted into arena bytes from `offset` on.
  void OnPosted(uint64_t wr_id, uint64_t offset, Layout layout);
  // The peer posted a message that will use up a receive request.
  void OnSentByPeer(Message message) { messages_.push_back(std::move(message)); }

  // Returns whether the completion counts as solicited.
  bool OnCompletion(const transport::Completion& completion);

  size_t outstanding() const { return posted_.size(); }
  uint64_t completed() const { return completed_; }
  bool broken() const { return broken_; }

 private:
  struct Posted {
    uint64_t wr_id;
    uint64_t offset;
    Layout layout;
    std::vector<uint8_t> before;  // what the area held
  };

  void CheckMessage(const transport::Completion& completion, const Posted& posted,
                    const Message& message);
  void CheckFailure(const transport::Completion& completion);

  Verdict& verdict_;
  Arena& arena_;
  RingAllocator& allocator_;
  bool lenient_;
  std::deque<Posted> posted_;
  std::deque<Message> messages_;
  uint64_t completed_ = 0;
  bool broken_ = false;  // a completion in error came; all others will be flushed
};

}  // namespace uroce::simulation
