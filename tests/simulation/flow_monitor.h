#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "tests/simulation/verdict.h"
#include "transport/ids.h"
#include "transport/psn.h"
#include "transport/qp/queue_pair.h"
#include "transport/wire/packet.h"

namespace uroce::transport::simulation {

// One end of a connection, as far as the wire shows it.
struct FlowEnd {
  const QueuePair* qp = nullptr;
  Psn first_psn;  // of its requests
  uint32_t mtu_bytes = 0;
  uint8_t max_read_atomic = 0;
  uint8_t retry_count = 0;
  uint8_t rnr_retry = 0;
  // The program leaves what it posted alone until it completes, so that a packet sent again has the
  // same payload.
  bool sources_are_stable = false;
};

// What was seen of a queue pair, to be compared with what its endpoint has counted.
struct FlowTally {
  // As requester.
  uint64_t retransmitted = 0;
  uint64_t go_backs = 0;
  uint64_t gap_naks_delivered = 0;
  uint64_t rnr_naks_delivered = 0;
  uint64_t gaps_in_responses = 0;
  // As responder.
  uint64_t gap_naks_sent = 0;
  uint64_t rnr_naks_sent = 0;
  uint64_t other_naks_sent = 0;
  uint64_t duplicates_delivered = 0;
};

// The requests of one queue pair and the responses to them. Knows from them alone, modulo 2^24 as
// the numbers are on the wire, what either side may send next.
//
// Packets are counted from the first request, in 64 bits:
//
//      acknowledged_end     next              sent_end
//   ---------|---------------|--------------------|--------->
//            | sent (again)  | to be sent again   | not sent yet
//
// A requester goes on at `next`, or goes back to acknowledged_end: to the oldest packet that is not
// acknowledged, which within a READ is the first response that is missing (go-back-N).
class FlowMonitor {
 public:
  FlowMonitor(Verdict& verdict, const FlowEnd& requester, const QueuePair* responder)
      : verdict_(&verdict), requester_(requester), responder_(responder) {}

  void OnRequestSent(const Packet& request);
  void OnResponseSent(const Packet& response);
  void OnRequestDelivered(const Packet& request);
  void OnResponseDelivered(const Packet& response);
  // The wire did something to a packet of this flow that a perfect wire would not do.
  void OnImpaired(const Packet& packet);

  // Whether so much went wrong since the last progress that the requester had to give up.
  bool RetriesMayBeExceeded() const;
  bool RnrRetriesMayBeExceeded() const;

  const FlowEnd& requester() const { return requester_; }
  // nullptr of a datagram queue pair, whose receivers are many.
  const QueuePair* responder() const { return responder_; }
  const FlowTally& requesters_tally() const { return requesters_tally_; }
  const FlowTally& responders_tally() const { return responders_tally_; }

 private:
  // A READ, or another request with a response of its own, whose responses are awaited.
  struct AwaitedRead {
    int64_t begin;
    int64_t next;  // the first packet not responded to
    int64_t end;
    Reth reth;
  };

  struct Message {
    int64_t end;
    bool takes_receive;
  };

  int64_t Unwrap(Psn psn, int64_t near) const;
  // The 64-bit number of messages that a 24-bit one stands for.
  uint64_t UnwrapMsn(uint32_t msn) const;
  int64_t PacketsOf(const Packet& request) const;
  uint32_t qpn() const { return requester_.qp->qpn().value; }
  bool IsReliable() const;
  // An initiator: its peer counts no credits.
  bool IsXrc() const;

  void CheckOrder(const Packet& request, int64_t begin, int64_t end);
  void OnNewRequest(const Packet& request, int64_t begin, int64_t end);
  void CheckRepeated(const Packet& request, int64_t begin);
  void CheckCredit(const Packet& request, int64_t begin);
  void CheckMsn(const Packet& response, int64_t at);
  void CheckNak(const Packet& response, int64_t at);
  void TakeCredit(const Aeth& aeth);
  void Progress(int64_t acknowledged_end);

  Verdict* verdict_;
  FlowEnd requester_;
  const QueuePair* responder_;

  int64_t next_ = 0;
  // Since the last request an ACK named more than had been sent again: the requester may take it
  // that nothing was lost, and go on with what was never sent.
  bool peer_has_more_ = false;
  int64_t sent_end_ = 0;
  int64_t acknowledged_end_ = 0;
  int64_t delivered_end_ = 0;  // what arrived at the responder without a gap
  std::deque<AwaitedRead> reads_;
  std::map<int64_t, uint64_t> fingerprints_;  // of the packets not acknowledged

  uint64_t messages_sent_ = 0;
  uint64_t receives_taken_ = 0;   // by these
  std::deque<Message> messages_;  // those not acknowledged, and the last one that is
  // How many receive requests of the responder may be taken; nullopt: any number.
  std::optional<uint64_t> credit_limit_ = 0;
  std::optional<int64_t> probe_;  // a packet that was sent beyond the limit, to ask

  int64_t naked_ = -1;            // the packet the last NAK for a gap asked for
  bool expected_arrived_ = true;  // since then

  // For each frame that the wire impaired, the packet it was or responded to, unless that has been
  // acknowledged: these may have cost retries since the last progress.
  std::vector<int64_t> impaired_;
  uint64_t impaired_ever_ = 0;
  uint32_t rnr_naks_since_progress_ = 0;

  FlowTally requesters_tally_;
  FlowTally responders_tally_;
};

}  // namespace uroce::transport::simulation
