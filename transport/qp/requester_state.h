#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "transport/congestion/flow_control.h"
#include "transport/limits.h"
#include "transport/psn.h"
#include "transport/qp/environment.h"
#include "transport/qp/pacing.h"
#include "transport/qp/round_trip_time.h"
#include "transport/qp/send_queue.h"
#include "transport/recovery/scoreboard.h"
#include "transport/time.h"

namespace uroce::transport {

// The fields of a Requester.
struct alignas(64) RequesterState {
  static constexpr Time kRestart{0};  // due at once
  static constexpr uint32_t kNoResend = kMaxCongestionWindow;

  RequesterState(QpContext& qp, SendQueue queue)
      : qp_(qp), next_psn_(qp.attributes.sq_psn), queue_(std::move(queue)) {}

  // Fields that every request and every ACK uses: a cache line with the first fields of the queue.
  QpContext& qp_;
  Psn& next_psn_;        // sq_psn
  uint32_t cursor_ = 0;  // number of the work request that next_psn_ belongs to
  Psn oldest_unacked_psn_;
  Psn sent_psn_;          // one beyond the last PSN ever sent
  Psn response_due_psn_;  // one beyond the last PSN that asked for a response
  Psn limit_psn_;         // packets before it may leave without asking TakePermit
  SendQueue queue_;

  // More such fields. kRestart: the ACK timer starts in the next OnDeadline, which knows the time.
  alignas(64) Time deadline_ = kNever;
  Time probe_at_ = kNever;     // when to check whether the peer has been silent for too long
  Time paced_until_ = kNever;  // nothing is sent before; kNever: pacing holds nothing back
  Time repair_at_ = kNever;    // when an overtaken packet is lost
  Time last_news_{};           // when a packet asked for a response, or something was acknowledged
  // End-to-end credits (IBA 9.7.7.2): messages that take a receive request of the peer may be sent
  // up to this SSN; without limit on XRC, and once the peer has sent no credit information.
  std::optional<uint32_t> ssn_limit_;
  uint32_t last_ssn_ = 0;        // of the youngest request that was started
  uint32_t retired_ssn_ = 0;     // of the youngest request that completed
  uint32_t free_in_flight_ = 0;  // requests between these that take no receive request
  // How many packets may be in flight.
  uint32_t window_ = kMaxPacketsInFlight;
  // Its bound while packets are sent again: after a probe it is 1, after a loss
  // kFirstResendWindow, and responses raise it.
  uint32_t resend_window_ = kNoResend;
  bool waits_for_receiver_ = false;  // the deadline is the end of an RNR wait
  // An RNR NAK came for a request that others followed: a sequence NAK for those may follow.
  bool nak_may_follow_ = false;
  // An ACK is asked for if these bits of the PSN are 0.
  uint8_t ack_mask_ = kAckRequestInterval - 1;
  uint8_t retries_left_ = 0;
  uint8_t rnr_retries_left_ = 0;
  bool failed_ = false;
  bool owes_repair_ = false;  // packets are to be sent again, and sending goes on
  Psn sent_twice_end_;        // one beyond the last PSN that was ever sent twice

  // Of a connection by the wire, if there is congestion control: own_flow_control_.
  FlowControl* flow_control_ = nullptr;
  RoundTripTime round_trip_;
  Time went_back_at_{};  // when packets were last sent again
  uint32_t probes_in_vain_ = 0;
  uint32_t read_credits_used_ = 0;
  // The PSN of the last response that implied the loss of an earlier one; reset by an
  // acknowledgement. Responses still under way behind it imply the same loss once more.
  std::optional<Psn> implied_by_;

  Pacer pacer_;

  std::unique_ptr<FlowControl> own_flow_control_;
  // Of the packets in flight, if there is flow control; made after the first loss.
  std::unique_ptr<Scoreboard> scoreboard_;
  // While something is known of packets in flight: all before it have been carried out, but not all
  // responses are here.
  Psn executed_end_;
  std::optional<Psn> peer_room_end_;  // the peer keeps early packets before it
  bool peer_tells_arrivals_ = false;  // by selective ACKs
  std::optional<Psn> probed_;         // the oldest packet when the peer was silent
  std::optional<Psn> reported_gap_;   // by the last selective ACK, without flow control
  Psn sent_again_psn_;                // while packets are sent again: one beyond the last that was
  Psn permit_begin_;                  // packets from here on before permit_end_ may leave now
  Psn permit_end_;
};

}  // namespace uroce::transport
