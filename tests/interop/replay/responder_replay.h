#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/interop/replay/answers.h"
#include "tests/interop/replay/flow.h"
#include "tests/interop/replay/stand_in.h"

namespace uroce::transport::interop {

// Our responder in the place of rxe's: gets the requests of a flow when rxe got them, and finds the
// receive requests and the memory that rxe must have found.
//
// What the capture tells of them: a SEND that rxe answered with an RNR NAK found no receive
// request; memory that is read holds what rxe's responses brought, when the READ arrives; a word
// that atomics work on holds at first what the first atomic found.
class ResponderReplay {
 public:
  ResponderReplay(const Capture& capture, const Flow& flow);

  void Run();

  const std::vector<Answer>& ours() const { return ours_; }
  const std::vector<Answer>& theirs() const { return theirs_; }
  // What went wrong besides the answers: messages that did not arrive as they were sent.
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
  std::map<uint32_t, int> rnr_naks_;  // that rxe is still to send, by PSN
  std::map<uint64_t, bool> atomics_seen_;
  bool receive_posted_ = false;
  std::vector<uint8_t> message_;  // what has been accepted of the SEND that is arriving
  size_t messages_received_ = 0;
};

}  // namespace uroce::transport::interop
