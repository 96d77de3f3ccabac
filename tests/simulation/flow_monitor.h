#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
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
  // The program leaves the memory of a request alone until it completes, so a packet that is sent
  // again has the same payload.
  bool sources_are_stable = false;
  // It has congestion control on the wire: only lost packets are sent again, in any order.
  bool is_selective = false;
  int host = 0;
};

// Events seen on the wire of one queue pair, to be compared with the counters of its endpoint.
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

// Checks the requests of one queue pair and the responses to them. Computes what either side may
// send next from these packets alone, and from PSNs modulo 2^24 as the wire has them.
//
// Packets are counted from the first request, in 64 bits:
//
//      acknowledged_end     next              sent_end
//   ---------|---------------|--------------------|--------->
//            | sent (again)  | to be sent again   | not sent yet
//
// A requester continues at `next`, or goes back to acknowledged_end, the oldest packet not
// acknowledged; within a READ that is the first missing response (go-back-N). One with congestion
// control may send any packet between acknowledged_end and sent_end again, or any part of a READ.
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

  // Whether enough went wrong since the last progress to use up the retries.
  bool RetriesMayBeExceeded() const;
  bool RnrRetriesMayBeExceeded() const;

  const FlowEnd& requester() const { return requester_; }
  // nullptr for a datagram queue pair, which has many receivers.
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
    std::set<int64_t> early = {};  // responses behind `next` that have arrived
  };

  struct Message {
    int64_t end;
    bool takes_receive;
  };

  int64_t Unwrap(Psn psn, int64_t near) const;
  // The 64-bit message number that the 24-bit `msn` stands for.
  uint64_t UnwrapMsn(uint32_t msn) const;
  int64_t PacketsOf(const Packet& request) const;
  uint32_t qpn() const { return requester_.qp->qpn().value; }
  bool IsReliable() const;
  // True for an XRC initiator: its peer gives no credits.
  bool IsXrc() const;

  void CheckOrder(const Packet& request, int64_t begin, int64_t end);
  bool ContinuesRead(const Packet& request) const;
  void OnNewRequest(const Packet& request, int64_t begin, int64_t end);
  void CheckRepeated(const Packet& request, int64_t begin);
  void CheckCredit(const Packet& request, int64_t begin);
  void CheckMsn(const Packet& response, int64_t at);
  void CheckNak(const Packet& response, int64_t at);
  void CheckSelectiveAck(const Packet& response, int64_t at);
  void CountReads();
  void OnResponseInAnyOrder(int64_t at);
  void TakeCredit(const Aeth& aeth);
  void Progress(int64_t acknowledged_end);

  Verdict* verdict_;
  FlowEnd requester_;
  const QueuePair* responder_;

  int64_t next_ = 0;
  // An ACK since the last request covered more than had been sent again. The requester may then
  // assume that nothing was lost, and continue with what it never sent.
  bool peer_has_more_ = false;
  int64_t sent_end_ = 0;
  int64_t acknowledged_end_ = 0;
  int64_t executed_end_ = 0;   // the requester knows that all before it were carried out
  int64_t delivered_end_ = 0;  // the responder got everything before this
  std::map<int64_t, int64_t> delivered_early_;  // begin and end of what it got behind a gap
  std::deque<AwaitedRead> reads_;
  std::optional<Reth> read_end_;  // where the data of the last new packet ends, if that is a READ
  std::map<int64_t, uint64_t> fingerprints_;  // of the packets not acknowledged

  uint64_t messages_sent_ = 0;
  uint64_t receives_taken_ = 0;   // by the messages sent
  std::deque<Message> messages_;  // not acknowledged ones, and the last acknowledged one
  // How many receive requests of the responder the requester may use up; nullopt: any number.
  std::optional<uint64_t> credit_limit_ = 0;
  std::optional<int64_t> probe_;  // the packet sent beyond the limit, to ask for credits

  int64_t naked_ = -1;            // the packet that the last gap NAK asked for
  bool expected_arrived_ = true;  // since that NAK

  // For each impaired frame the packet that it was or responded to, until that packet is
  // acknowledged: these frames may have cost retries since the last progress.
  std::vector<int64_t> impaired_;
  uint64_t impaired_ever_ = 0;
  uint32_t rnr_naks_since_progress_ = 0;

  FlowTally requesters_tally_;
  FlowTally responders_tally_;
};

}  // namespace uroce::transport::simulation
