#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "tests/simulation/message_stream.h"
#include "tests/simulation/receive_pool.h"
#include "tests/simulation/verdict.h"
#include "transport/completion.h"

namespace uroce::transport::simulation {

// The oracle of the receives of one connected queue pair: which message each completion must be,
// and what memory must then hold.
class ReceiveModel {
 public:
  struct Rules {
    MessageStream::Service service = MessageStream::Service::kReliable;
    bool survives_failures = false;  // a receive may fail and the next one succeed
    bool lenient = false;            // only the order and number of completions is checked
  };
  // Whether a receive may fail with this status for a reason other than the message.
  using MayFail = std::function<bool(CompletionStatus)>;

  ReceiveModel(Verdict& verdict, const Rules& rules, MayFail may_fail)
      : verdict_(verdict), rules_(rules), may_fail_(std::move(may_fail)), sent_(rules.service) {}

  // The messages that the peer sends.
  MessageStream& sent() { return sent_; }

  // `posted` lies in `arena`. Returns whether the completion counts as solicited.
  bool OnCompletion(const Completion& completion, const PostedReceive& posted, Arena& arena);

  bool broken() const { return broken_; }

 private:
  bool OnSuccess(const Completion& completion, const PostedReceive& posted, Arena& arena);
  void OnFailure(const Completion& completion);
  void CheckMessage(const Completion& completion, const PostedReceive& posted,
                    const Message& message, Arena& arena);

  Verdict& verdict_;
  Rules rules_;
  MayFail may_fail_;
  MessageStream sent_;
  bool broken_ = false;  // a completion in error came; all others will be flushed
};

// The completion that `message` must produce, without wr_id and queue pair numbers.
Completion ExpectedCompletion(const Message& message);
bool SaysTheSame(const Completion& completion, const Completion& expected);

}  // namespace uroce::transport::simulation
