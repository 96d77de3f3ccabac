#include "tests/simulation/receive_model.h"

#include <algorithm>
#include <utility>

#include "tests/simulation/describe.h"

namespace uroce::simulation {

using transport::Completion;
using transport::CompletionOpcode;
using transport::CompletionStatus;
using transport::SendOpcode;

void ReceiveModel::OnPosted(uint64_t wr_id, uint64_t offset, Layout layout) {
  const auto area = arena_.bytes(offset, layout.area_bytes);
  posted_.push_back({wr_id, offset, std::move(layout), {area.begin(), area.end()}});
}

bool ReceiveModel::OnCompletion(const Completion& completion) {
  ++completed_;
  if (posted_.empty() || posted_.front().wr_id != completion.wr_id) {
    verdict_.Fail("not the oldest receive request completes: ", DescribeCompletion(completion));
    return false;
  }
  const Posted posted = std::move(posted_.front());
  posted_.pop_front();
  bool solicited = true;
  if (completion.status != CompletionStatus::kSuccess) {
    CheckFailure(completion);
  } else if (broken_) {
    verdict_.Fail("a receive succeeds after one failed: ", DescribeCompletion(completion));
  } else if (!lenient_) {
    if (messages_.empty()) {
      verdict_.Fail("a receive of nothing: ", DescribeCompletion(completion));
      return false;
    }
    const Message message = std::move(messages_.front());
    messages_.pop_front();
    solicited = message.solicited;
    CheckMessage(completion, posted, message);
  }
  allocator_.FreeOldest();
  return solicited;
}

void ReceiveModel::CheckFailure(const Completion& completion) {
  const bool first = !std::exchange(broken_, true);
  if (lenient_ || completion.status == CompletionStatus::kFlushed) return;
  const bool too_long =
      first && completion.status == CompletionStatus::kLocalLengthError && !messages_.empty();
  if (!too_long) verdict_.Fail("a receive fails for no reason: ", DescribeCompletion(completion));
}

void ReceiveModel::CheckMessage(const Completion& completion, const Posted& posted,
                                const Message& message) {
  const bool is_write = IsWrite(message.opcode);
  Completion expected;
  expected.wr_id = completion.wr_id;
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
  if (completion.opcode != expected.opcode || completion.flags != expected.flags ||
      completion.byte_length != expected.byte_length ||
      completion.immediate_or_rkey != expected.immediate_or_rkey) {
    return verdict_.Fail("a receive completes as ", DescribeCompletion(completion), ", expected ",
                         DescribeCompletion(expected));
  }
  std::vector<uint8_t> area = posted.before;
  if (!is_write) posted.layout.Scatter(message.bytes, area);
  const auto actual = arena_.bytes(posted.offset, area.size());
  const auto [at, unused] = std::mismatch(actual.begin(), actual.end(), area.begin());
  if (at != actual.end()) {
    verdict_.Fail("wrong byte ", at - actual.begin(), " of ", area.size(),
                  " in the memory of a receive: ", DescribeCompletion(completion));
  }
}

}  // namespace uroce::simulation
