#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/interop/replay/answers.h"
#include "tests/interop/replay/flow.h"
#include "tests/interop/replay/stand_in.h"

namespace uroce::transport::interop {

// Our responder in the place of rxe's: gets the requests of a flow at the times when rxe got them,
// and has the receive requests and the memory that rxe must have had.
//
// They follow from the capture: for a SEND that rxe answered with an RNR NAK there was no receive
// request; when a READ arrives, its memory holds the data of rxe's responses; a word of atomics
// first holds the value that the first atomic returned.
class ResponderReplay {
 public:
  ResponderReplay(const Capture& capture, const Flow& flow);

  void Run();

  const std::vector<Answer>& ours() const { return ours_; }
  const std::vector<Answer>& theirs() const { return theirs_; }
  // Errors beside the answers: messages that did not arrive as they were sent.
  const std::vector<std::string>& failures() const { return failures_; }
  size_t messages_received() const { return messages_received_; }

 private:
  StandIn::Options Options() const;
  void Prepare(const CapturedFrame& request);
  void PrepareRead(const CapturedFrame& request);
  void PrepareAtomic(const CapturedFrame& request);
  void PrepareReceive(const Packet& request);
  void Take(const CapturedFrame& request, DropReason reason);
  void CheckReceived(const CapturedFrame& request);

  const Capture& capture_;
  const Flow& flow_;
  StandIn stand_in_;
  std::vector<Answer> ours_;
  std::vector<Answer> theirs_;
  std::vector<std::string> failures_;
  std::map<uint32_t, int> rnr_naks_;  // still to come from rxe, by PSN
  std::map<uint64_t, bool> atomics_seen_;
  bool receive_posted_ = false;
  std::vector<uint8_t> message_;  // the accepted part of the arriving SEND
  size_t messages_received_ = 0;
};

}  // namespace uroce::transport::interop
