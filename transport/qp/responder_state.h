#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "transport/completion_queue.h"
#include "transport/events.h"
#include "transport/ids.h"
#include "transport/memory/sge_cursor.h"
#include "transport/psn.h"
#include "transport/qp/environment.h"
#include "transport/qp/receive_source.h"
#include "transport/qp/relayed_requests.h"
#include "transport/qp/reply_queue.h"
#include "transport/recovery/reorder_buffer.h"
#include "transport/recovery/reorder_window.h"
#include "transport/time.h"
#include "transport/wire/aeth.h"
#include "transport/wire/reth.h"

namespace uroce::transport {

// The fields of a Responder.
struct alignas(64) ResponderState {
  // The acknowledgement to send after the replies. An ACK covers everything executed.
  // kReady: an ACK of nothing new, which ends the wait after an RNR NAK.
  // kSelectiveAck: in place of a NAK, to a peer that understands it.
  enum class Acknowledge : uint8_t {
    kNone,
    kAck,
    kSelectiveAck,
    kSequenceNak,
    kRnrNak,
    kReady,
    kFatalNak
  };
  enum class Message : uint8_t { kNone, kSend, kWrite };

  ResponderState(QpContext& qp, ReceiveQueue receives, std::unique_ptr<RelayedRequests> relayed)
      : qp_(qp),
        expected_psn_(qp.attributes.rq_psn),
        remote_pd_(qp.init.pd),
        receive_cq_(qp.init.receive_cq),
        reported_qpn_(qp.init.reported_qpn.value != 0 ? qp.init.reported_qpn : qp.qpn),
        relayed_(std::move(relayed)),
        early_packets_(qp.environment.reorder_pool),
        receives_(qp.init, std::move(receives)) {}

  // Fields that every request uses: a cache line with the first fields of the replies.
  QpContext& qp_;
  Psn& expected_psn_;  // rq_psn
  // The protection domain of the memory that the peer reads and writes. XRC: that of the queue that
  // the current request names, as is receive_cq_.
  PdId remote_pd_;
  uint32_t msn_ = 0;  // 24 bits: requests completed (IBA C9-148)
  // An ACK names the youngest executed packet of a SEND or WRITE, and the MSN after it. A request
  // with a response of its own is acknowledged by that alone (IBA 9.7.5.1.2); rxe takes an ACK that
  // names a READ or an atomic for the response.
  Psn ack_psn_;
  uint32_t ack_msn_ = 0;
  Acknowledge acknowledge_ = Acknowledge::kNone;
  NakCode fatal_nak_ = NakCode::kInvalidRequest;
  // The NAK for the expected PSN was sent or is due; it is not sent twice (IBA 9.7.5.2).
  bool nak_sent_ = false;
  bool failed_ = false;
  // A message was refused by an RNR NAK, and its peer is to be told of the next receive request.
  bool awaits_receive_ = false;
  Message message_ = Message::kNone;  // that is being received
  bool is_queue_known_ = true;        // XRC: the request names a queue, that of the whole message
  ReplyQueue replies_;

  CompletionQueue* receive_cq_;
  const Qpn reported_qpn_;  // in completions
  const std::unique_ptr<RelayedRequests> relayed_;
  Psn last_dropped_psn_;  // the highest beyond the gap
  // Packets that arrived before an earlier one, while a gap is open (QpContext::has_open_gap).
  ReorderBuffer early_packets_;
  ReorderWindow reorder_window_;
  Time gap_since_;             // the arrival of the first packet behind the gap
  bool is_first_gap_ = false;  // of a recovery; others become the gap when one is filled
  Time nak_due_ = kNever;      // of a gap that is not reported yet
  std::optional<EventType> failure_event_;
  alignas(64) ReceiveSource receives_;

  // The message that is being received.
  uint64_t received_bytes_ = 0;
  Reth write_;                // where a WRITE goes
  SgeCursor receive_cursor_;  // where a SEND goes
};

}  // namespace uroce::transport
