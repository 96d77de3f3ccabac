#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "tests/simulation/arena.h"
#include "tests/simulation/shared_counters.h"
#include "tests/simulation/verdict.h"
#include "transport/completion.h"
#include "transport/work_request.h"

namespace uroce::transport::simulation {

// A send work request and all its expected effects.
struct SentRequest {
  uint64_t wr_id = 0;
  SendOpcode opcode = SendOpcode::kSend;
  bool signaled = false;
  uint32_t length = 0;
  // Not kSuccess: the request is wrong on purpose and must complete with this status.
  CompletionStatus expected_status = CompletionStatus::kSuccess;

  // The bytes of the peer's exposed memory that the request changes, from `remote_offset` on.
  uint64_t remote_offset = 0;
  std::vector<uint8_t> remote_before;
  std::vector<uint8_t> remote_after;

  // The area of the sink arena that the request fills, and the bytes that it must then hold.
  std::optional<uint64_t> sink_offset;
  std::vector<uint8_t> sink_after;
  uint64_t sink_data_at = 0;  // where in the area the first piece of data lies

  // The area of the source arena that the request reads; it is free again when the request is done.
  std::optional<uint64_t> source_offset;
  uint64_t source_bytes = 0;

  // The shared word that the request adds to; the result goes into the sink.
  std::optional<size_t> counter;
  uint64_t counter_delta = 0;

  std::function<void()> when_done;     // may be empty
  std::function<void()> when_flushed;  // ... or completed in error; may be empty

  // The peer refused this request or an earlier one, so this one was certainly not carried out.
  bool refused = false;
};

// The oracle of a send queue and of the memory its requests work on.
//
// The peer's exposed memory belongs to this send queue alone, and a reliable connection carries
// requests out in order. So the result of each READ and atomic is known when it is posted:
// `remote()` is the memory as it will be after all posted requests.
class SendModel {
 public:
  struct Memory {
    Arena& source;
    RingAllocator& source_allocator;
    Arena& sink;
    RingAllocator& sink_allocator;
    Arena& remote;  // the peer's exposed memory
    SharedCounters& counters;
  };
  // Whether a correct request may fail with this status for an outside reason.
  using MayFail = std::function<bool(CompletionStatus)>;

  struct Rules {
    bool lenient = false;  // only the order and number of completions is checked
    bool reliable = true;  // a completed request was carried out; false: maybe
  };
  SendModel(Verdict& verdict, const Memory& memory, MayFail may_fail, const Rules& rules);

  // The peer's memory after everything that was posted.
  std::vector<uint8_t>& remote() { return remote_; }
  // The newest sink that a READ fills and that still exists; nullptr if there is none. Keeps the
  // sink until the next posted request is done.
  const SentRequest* KeepNewestSink();

  void OnPosted(SentRequest request);
  // The queue pair works again after a request failed and all others were flushed.
  void Recover() { broken_ = refused_ = false; }
  void OnCompletion(const Completion& completion);

  // Call when nothing more will happen: the peer's memory must hold the bytes written.
  void CheckEnd();

  size_t outstanding() const { return outstanding_.size(); }
  // How many of these add to shared words.
  size_t additions_outstanding() const;
  // Whether a completion is certain to come.
  bool awaits_completion() const;
  bool broken() const { return broken_; }

 private:
  struct Sink {
    uint64_t sequence;  // of the request that fills the sink
    uint64_t kept_for;  // of the last request that needs the sink
    SentRequest filled_by;
  };

  void OnSuccess(const Completion& completion);
  void OnFailure(const Completion& completion);
  void Confirm();
  void CheckSink(const SentRequest& request);
  void FailOldest();
  void ReleaseMemory(const SentRequest& request);
  bool IsPossible(size_t offset, uint8_t value) const;

  Verdict& verdict_;
  Memory memory_;
  MayFail may_fail_;
  Rules rules_;
  std::vector<uint8_t> remote_;
  std::deque<SentRequest> outstanding_;
  std::deque<Sink> sinks_;
  std::vector<SentRequest> uncertain_;  // may have been carried out, or in part, or not
  uint64_t posted_ = 0;
  uint64_t confirmed_ = 0;
  bool broken_ = false;
  bool refused_ = false;  // broken by a NAK: neither that request nor any later one ran
};

}  // namespace uroce::transport::simulation
