#include "tests/simulation/send_model.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/simulation/describe.h"

namespace uroce::transport::simulation {
namespace {

CompletionOpcode ExpectedOpcode(SendOpcode opcode) {
  switch (opcode) {
    case SendOpcode::kRdmaWrite:
    case SendOpcode::kRdmaWriteWithImmediate:
      return CompletionOpcode::kRdmaWrite;
    case SendOpcode::kRdmaRead:
      return CompletionOpcode::kRdmaRead;
    case SendOpcode::kCompareAndSwap:
      return CompletionOpcode::kCompareAndSwap;
    case SendOpcode::kFetchAndAdd:
      return CompletionOpcode::kFetchAndAdd;
    case SendOpcode::kLocalInvalidate:
      return CompletionOpcode::kLocalInvalidate;
    case SendOpcode::kBindWindow:
      return CompletionOpcode::kBindWindow;
    case SendOpcode::kFlush:
      return CompletionOpcode::kFlush;
    case SendOpcode::kAtomicWrite:
      return CompletionOpcode::kAtomicWrite;
    default:
      return CompletionOpcode::kSend;
  }
}

// The peer reported that it did not carry the request out.
bool IsRefusal(CompletionStatus status) {
  return status == CompletionStatus::kRemoteAccessError ||
         status == CompletionStatus::kRemoteInvalidRequest;
}

// Overwrites a source when its request is done, so that a later read of it shows.
constexpr uint8_t kScribble = 0xdd;

}  // namespace

SendModel::SendModel(Verdict& verdict, const Memory& memory, MayFail may_fail, const Rules& rules)
    : verdict_(verdict),
      memory_(memory),
      may_fail_(std::move(may_fail)),
      rules_(rules),
      remote_(memory.remote.at(0), memory.remote.at(memory.remote.size())) {}

const SentRequest* SendModel::KeepNewestSink() {
  if (sinks_.empty() || sinks_.back().filled_by.opcode != SendOpcode::kRdmaRead) return nullptr;
  sinks_.back().kept_for = posted_;
  return &sinks_.back().filled_by;
}

void SendModel::OnPosted(SentRequest request) {
  if (request.sink_offset.has_value()) sinks_.push_back({posted_, posted_, request});
  outstanding_.push_back(std::move(request));
  ++posted_;
}

size_t SendModel::additions_outstanding() const {
  return static_cast<size_t>(
      std::count_if(outstanding_.begin(), outstanding_.end(),
                    [](const SentRequest& request) { return request.counter.has_value(); }));
}

bool SendModel::awaits_completion() const {
  return std::any_of(outstanding_.begin(), outstanding_.end(),
                     [](const SentRequest& request) { return request.signaled; });
}

void SendModel::OnCompletion(const Completion& completion) {
  if (broken_) {
    // IBA 10.3.1.7: the remaining requests are flushed, in order, each once.
    if (outstanding_.empty() || outstanding_.front().wr_id != completion.wr_id ||
        completion.status != CompletionStatus::kFlushed) {
      return verdict_.Fail("after an error not the oldest request is flushed: ",
                           DescribeCompletion(completion));
    }
    return FailOldest();
  }
  // Unsignaled requests succeed without a completion.
  while (!outstanding_.empty() && outstanding_.front().wr_id != completion.wr_id) {
    if (outstanding_.front().signaled) {
      return verdict_.Fail("request ", outstanding_.front().wr_id,
                           " was to complete before: ", DescribeCompletion(completion));
    }
    Confirm();
  }
  if (outstanding_.empty()) {
    return verdict_.Fail("completes what was not posted, or twice: ",
                         DescribeCompletion(completion));
  }
  completion.status == CompletionStatus::kSuccess ? OnSuccess(completion) : OnFailure(completion);
}

void SendModel::OnSuccess(const Completion& completion) {
  const SentRequest& request = outstanding_.front();
  if (!request.signaled) {
    verdict_.Fail("an unsignaled success is signaled: ", DescribeCompletion(completion));
  }
  if (completion.opcode != ExpectedOpcode(request.opcode)) {
    verdict_.Fail("a request completes as another: ", DescribeCompletion(completion));
  }
  if (ReturnsData(request.opcode) && completion.byte_length != request.length) {
    verdict_.Fail("read ", completion.byte_length, " of ", request.length, " bytes");
  }
  Confirm();
}

void SendModel::OnFailure(const Completion& completion) {
  const SentRequest& request = outstanding_.front();
  const bool on_purpose = completion.status == request.expected_status;
  if (!rules_.lenient && !on_purpose && !may_fail_(completion.status)) {
    verdict_.Fail("a request fails for no reason: ", DescribeCompletion(completion));
  }
  broken_ = true;
  refused_ = on_purpose && IsRefusal(completion.status);
  FailOldest();
}

// The oldest request is known to have succeeded.
void SendModel::Confirm() {
  SentRequest request = std::move(outstanding_.front());
  outstanding_.pop_front();
  if (!rules_.lenient && request.expected_status != CompletionStatus::kSuccess) {
    verdict_.Fail("request ", request.wr_id, " succeeds, which is to fail with status ",
                  static_cast<int>(request.expected_status));
  }
  CheckSink(request);
  ReleaseMemory(request);
  if (request.when_done) request.when_done();
  if (!rules_.reliable && !request.remote_after.empty()) uncertain_.push_back(std::move(request));
}

// The oldest request is done and no longer needs its memory.
void SendModel::ReleaseMemory(const SentRequest& request) {
  if (request.source_offset.has_value()) {
    std::memset(memory_.source.at(*request.source_offset), kScribble, request.source_bytes);
    memory_.source_allocator.FreeOldest();
  }
  while (!sinks_.empty() && sinks_.front().kept_for <= confirmed_ &&
         sinks_.front().sequence <= confirmed_) {
    sinks_.pop_front();
    memory_.sink_allocator.FreeOldest();
  }
  ++confirmed_;
}

void SendModel::CheckSink(const SentRequest& request) {
  if (rules_.lenient || !request.sink_offset.has_value()) return;
  const auto actual = memory_.sink.bytes(*request.sink_offset, request.sink_after.size());
  if (request.counter.has_value()) {
    uint64_t original;
    std::memcpy(&original, &actual[request.sink_data_at], 8);
    memory_.counters.OnAdded(*request.counter, original, request.counter_delta);
    return;
  }
  const auto [at, unused] = std::mismatch(actual.begin(), actual.end(), request.sink_after.begin());
  if (at != actual.end()) {
    verdict_.Fail("wrong byte ", at - actual.begin(), " of ", actual.size(), " brought by request ",
                  request.wr_id, ", opcode ", static_cast<int>(request.opcode));
  }
}

void SendModel::FailOldest() {
  SentRequest request = std::move(outstanding_.front());
  outstanding_.pop_front();
  request.refused = refused_;
  if (request.counter.has_value() && !refused_) {
    memory_.counters.OnUncertain(*request.counter, request.counter_delta);
  }
  ReleaseMemory(request);
  if (request.when_flushed) request.when_flushed();
  uncertain_.push_back(std::move(request));
}

// Outstanding and failed requests may have changed memory.
bool SendModel::IsPossible(size_t offset, uint8_t value) const {
  const auto may_leave = [&](const SentRequest& request) {
    if (offset < request.remote_offset ||
        offset - request.remote_offset >= request.remote_after.size()) {
      return false;
    }
    const size_t at = offset - request.remote_offset;
    return request.remote_before[at] == value ||
           (!request.refused && request.remote_after[at] == value);
  };
  return std::any_of(uncertain_.begin(), uncertain_.end(), may_leave) ||
         std::any_of(outstanding_.begin(), outstanding_.end(), may_leave);
}

void SendModel::CheckEnd() {
  if (rules_.lenient) return;
  for (const SentRequest& request : outstanding_) {
    if (request.counter.has_value()) {
      memory_.counters.OnUncertain(*request.counter, request.counter_delta);
    }
  }
  const auto actual = memory_.remote.bytes(0, remote_.size());
  for (size_t i = 0; i < remote_.size(); ++i) {
    if (actual[i] == remote_[i] || IsPossible(i, actual[i])) continue;
    return verdict_.Fail("byte ", i, " of the peer's memory is ", int{actual[i]}, " instead of ",
                         int{remote_[i]});
  }
}

}  // namespace uroce::transport::simulation
