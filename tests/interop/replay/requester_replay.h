#pragma once

#include <string>
#include <vector>

#include "tests/interop/replay/answers.h"
#include "tests/interop/replay/flow.h"
#include "tests/interop/replay/stand_in.h"
#include "transport/completion.h"

namespace uroce::transport::interop {

// Our requester in the place of rxe's. Its application posts the same work requests, each at the
// time of its first packet, and it gets rxe's responses when rxe got them.
//
// The work requests follow from the packets: every PSN belongs to one work request, however often
// and in whatever order it was sent.
class RequesterReplay {
 public:
  RequesterReplay(const Capture& capture, const Flow& flow);

  void Run();

  // The first transmission of each request, by PSN.
  const std::vector<Answer>& ours() const { return ours_; }
  const std::vector<Answer>& theirs() const { return theirs_; }
  const std::vector<std::string>& failures() const { return failures_; }
  size_t posted() const { return requests_.size(); }
  // How many completed with success; and the status of the first that failed, if any.
  size_t completed() const { return completed_; }
  CompletionStatus end() const { return end_; }

 private:
  struct WorkRequest {
    uint32_t first_frame = 0;  // with a packet of it
    TransportHeaders headers;
    std::vector<uint8_t> payload;  // to send, or expected from the READ
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
