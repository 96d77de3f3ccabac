#include "tests/simulation/receive_model.h"

#include <algorithm>
#include <utility>

#include "tests/simulation/describe.h"

namespace uroce::transport::simulation {

Completion ExpectedCompletion(const Message& message) {
  const bool is_write = IsWrite(message.opcode);
  Completion expected;
  expected.opcode =
      is_write ? CompletionOpcode::kReceiveRdmaWithImmediate : CompletionOpcode::kReceive;
  expected.byte_length = message.length;
  if (is_write || message.opcode == SendOpcode::kSendWithImmediate) {
    expected.flags = Completion::kHasImmediate;
    expected.immediate_or_rkey = message.immediate;
  } else if (message.opcode == SendOpcode::kSendWithInvalidate) {
    expected.flags = Completion::kHasInvalidate;
    expected.immediate_or_rkey = message.invalidate_rkey.value;
  }
  return expected;
}

bool SaysTheSame(const Completion& completion, const Completion& expected) {
  return completion.opcode == expected.opcode && completion.flags == expected.flags &&
         completion.byte_length == expected.byte_length &&
         completion.immediate_or_rkey == expected.immediate_or_rkey;
}

namespace {

// The memory of `posted` after `message`. A message dropped half way may have left bytes behind it,
// in a receive that waits for the next message.
std::vector<uint8_t> AreaAfter(const Message& message, const PostedReceive& posted,
                               std::span<const uint8_t> actual, bool may_be_dirty) {
  std::vector<uint8_t> area = posted.before;
  if (may_be_dirty) posted.layout.Scatter(posted.layout.Gather(actual), area);
  if (!IsWrite(message.opcode)) posted.layout.Scatter(message.bytes, area);
  return area;
}

}  // namespace

bool ReceiveModel::OnCompletion(const Completion& completion, const PostedReceive& posted,
                                Arena& arena) {
  if (completion.status != CompletionStatus::kSuccess) {
    OnFailure(completion);
    return true;
  }
  if (broken_) {
    verdict_.Fail("a receive succeeds after one failed: ", DescribeCompletion(completion));
  }
  return rules_.lenient || OnSuccess(completion, posted, arena);
}

bool ReceiveModel::OnSuccess(const Completion& completion, const PostedReceive& posted,
                             Arena& arena) {
  const bool reliable = rules_.service == MessageStream::Service::kReliable;
  if (const Message* next = sent_.Next(); reliable && next != nullptr) {
    CheckMessage(completion, posted, *next, arena);
  }
  const auto actual = arena.bytes(posted.offset, posted.before.size());
  const Message* message = sent_.Take([&](const Message& candidate) {
    // All fields and bytes identify the message among the several that may arrive.
    return reliable || (candidate.receive_status == CompletionStatus::kSuccess &&
                        SaysTheSame(completion, ExpectedCompletion(candidate)) &&
                        std::ranges::equal(
                            actual, AreaAfter(candidate, posted, actual, /*may_be_dirty=*/true)));
  });
  if (message != nullptr) return message->solicited;
  verdict_.Fail("a receive of nothing, or of what was not to come any more: ",
                DescribeCompletion(completion));
  return false;
}

void ReceiveModel::OnFailure(const Completion& completion) {
  const bool flushed = completion.status == CompletionStatus::kFlushed;
  const bool first = !broken_;
  broken_ |= flushed || !rules_.survives_failures ||
             completion.status == CompletionStatus::kLocalProtectionError;
  if (rules_.lenient || flushed) return;
  const Message* next = sent_.Next();
  const bool on_purpose = next != nullptr && next->receive_status == completion.status;
  if (!first || (!on_purpose && !may_fail_(completion.status))) {
    verdict_.Fail("a receive fails for no reason: ", DescribeCompletion(completion));
  }
}

void ReceiveModel::CheckMessage(const Completion& completion, const PostedReceive& posted,
                                const Message& message, Arena& arena) {
  const Completion expected = ExpectedCompletion(message);
  if (!SaysTheSame(completion, expected)) {
    return verdict_.Fail("a receive completes as ", DescribeCompletion(completion), ", expected ",
                         DescribeCompletion(expected));
  }
  const auto actual = arena.bytes(posted.offset, posted.before.size());
  const std::vector<uint8_t> area = AreaAfter(message, posted, actual, /*may_be_dirty=*/false);
  const auto [at, unused] = std::mismatch(actual.begin(), actual.end(), area.begin());
  if (at != actual.end()) {
    verdict_.Fail("wrong byte ", at - actual.begin(), " of ", area.size(),
                  " in the memory of a receive: ", DescribeCompletion(completion));
  }
}

}  // namespace uroce::transport::simulation
