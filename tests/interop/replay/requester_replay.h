#pragma once

#include <string>
#include <vector>

#include "tests/interop/replay/answers.h"
#include "tests/interop/replay/flow.h"
#include "tests/interop/replay/stand_in.h"
#include "transport/completion.h"

namespace uroce::transport::interop {

// Our requester in the place of rxe's: its application posts the same work requests, each when its
// first packet was on the wire, and it gets the responses that rxe got, when rxe got them.
//
// The work requests follow from the packets: every PSN is of one of them, however often and in
// whatever order it was sent.
class RequesterReplay {
 public:
  RequesterReplay(const Capture& capture, const Flow& flow);

  void Run();

  // The requests by PSN, each as it was sent first.
  const std::vector<Answer>& ours() const { return ours_; }
  const std::vector<Answer>& theirs() const { return theirs_; }
  const std::vector<std::string>& failures() const { return failures_; }
  size_t posted() const { return requests_.size(); }
  // In success; and how the first one ended that did not, if one ended.
  size_t completed() const { return completed_; }
  CompletionStatus end() const { return end_; }

 private:
  struct WorkRequest {
    uint32_t first_frame = 0;  // that carried a packet of it
    TransportHeaders headers;
    std::vector<uint8_t> payload;  // sent, or to be read
    size_t offset = 0;             // in the stand-in's memory
  };

  // The first packet with each PSN, in the order of PSNs.
  std::vector<const CapturedFrame*> FirstTransmissions() const;
  void FindWorkRequests();
  void FindResult(WorkRequest& request) const;
  StandIn::Options Options() const;
  std::vector<uint8_t> NoCreditInformation() const;
  void Post(StandIn& stand_in, const WorkRequest& request);
  void TakeSent(StandIn& stand_in);
  void TakeCompletions(StandIn& stand_in);

  const Capture& capture_;
  const Flow& flow_;
  std::vector<WorkRequest> requests_;
  size_t local_bytes_ = 0;
  size_t completed_ = 0;
  CompletionStatus end_ = CompletionStatus::kSuccess;
  std::vector<Answer> ours_;
  std::vector<Answer> theirs_;
  std::vector<CapturedFrame> sent_;
  std::vector<std::string> failures_;
};

}  // namespace uroce::transport::interop
