#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tests/fuzz/fuzz_memory.h"
#include "tests/fuzz/fuzz_peer.h"
#include "transport/completion.h"
#include "transport/counters.h"
#include "transport/qp/queue_pair.h"
#include "transport/time.h"
#include "transport/wire/packet.h"
#include "transport/work_request.h"

namespace uroce::transport {

// An independent model of a reliable requester. Follows its frames and the responses, and predicts
// the effect of each response, the contents and time of each packet, and which requests complete.
class RequesterModel {
 public:
  RequesterModel(QueuePair& qp, FuzzMemory& memory, const FuzzConnection& connection);

  // A posted send work request that has not completed, as far as the model can tell.
  struct Request {
    SendWorkRequest parameters;  // without its data
    std::vector<ScatterGatherEntry> sges;
    std::optional<std::vector<uint8_t>> inline_bytes;
    uint64_t length = 0;
    bool started = false;
    Psn first_psn;
    uint32_t psns = 0;  // 0 for a local operation

    Psn end_psn() const { return first_psn + psns; }
    bool has_own_response() const { return HasOwnResponse(parameters.opcode); }
    bool is_local() const { return IsLocal(parameters.opcode); }
    bool has_data() const { return !is_local() && parameters.opcode != SendOpcode::kFlush; }
  };

  // The request was accepted.
  void OnPosted(const SendWorkRequest& request);
  // The queue pair sent this.
  void OnFrame(Time now, const Packet& packet);
  // A response is about to be handed over: returns the result that the queue pair must report.
  DropReason Expect(const Packet& packet) const;
  // The queue pair reported `result`; its completions since then have come to OnCompletion.
  void OnResponse(Time now, const Packet& packet, DropReason expected, DropReason result);
  void OnCompletion(const Completion& completion);
  // The ACK timer ran out.
  void OnTimeout(Time now);
  // Between two operations no completion may be missing.
  void RequireQuiescent();

  // The oldest PSN without a response, and the one after the last PSN ever sent.
  Psn unacked_psn() const { return unacked_psn_; }
  Psn sent_psn() const { return sent_psn_; }
  // The request that uses the PSN; nullptr if the PSN is not outstanding.
  const Request* Find(Psn psn) const;
  // Payload bytes of the READ response with this PSN: none for a FLUSH or an ATOMIC WRITE.
  size_t ReadBytes(const Request& request, Psn psn) const;
  // Whether a request has yet to complete. For an unsignaled local operation that cannot be told.
  bool IsWaiting() const;

 private:
  // requester_frames.cc
  Request& Start(Psn psn);
  void CheckFrame(const Request& request, const Packet& packet) const;
  void CheckData(const Request& request, uint64_t offset, const Packet& packet) const;
  void RequireAllowed(Time now, const Request& request, const Packet& packet) const;
  std::vector<uint8_t> Gather(const Request& request, uint64_t offset, uint64_t length) const;

  // requester_model.cc
  using Pieces = std::vector<std::pair<uint8_t*, size_t>>;
  std::optional<Pieces> Locate(const Request& request, uint64_t offset, uint64_t bytes) const;
  const Request* FirstReadBefore(Psn psn) const;
  bool IsAnswered(const Request& request) const;
  void AcknowledgeUpTo(Time now, Psn psn);
  void OnNak(Time now, const Packet& packet);
  void CheckFailure(const Completion& completion) const;

  uint32_t mtu_bytes() const { return Bytes(connection_.mtu); }
  int32_t Outstanding(Psn psn) const { return psn.DistanceFrom(unacked_psn_); }

  QueuePair& qp_;
  FuzzMemory& memory_;
  const FuzzConnection connection_;
  std::deque<Request> requests_;
  Psn unacked_psn_;
  Psn sent_psn_;

  Time last_progress_{};        // the last acknowledgement, or another restart of the timer
  Time silent_until_{};         // after an RNR NAK
  uint32_t setbacks_ = 0;       // timeouts and sequence NAKs since the last progress
  uint32_t rnr_naks_ = 0;       // since the last progress
  std::optional<NakCode> nak_;  // the NAK that ends the connection
  bool place_failed_ = false;   // a response had no valid place for its data
  bool wrong_response_ = false;
  bool failed_ = false;  // a request completed in error, the others must be flushed
};

}  // namespace uroce::transport
