#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>

#include "transport/cm/identifiers.h"
#include "transport/cm/mad.h"
#include "transport/cm/messages.h"
#include "transport/cm/parameters.h"
#include "transport/time.h"

namespace uroce::transport::cm {

// The states of the specification's chapter 12; the names are those of enum ib_cm_state. README.md
// has the table.
enum class State : uint8_t {
  kIdle,
  kListening,
  kReqSent,
  kReqReceived,
  kMraReqSent,
  kMraReqReceived,
  kRepSent,
  kRepReceived,
  kMraRepSent,
  kMraRepReceived,
  kEstablished,
  kDreqSent,
  kDreqReceived,
  kTimewait,
  kSidrReqSent,
  kSidrReqReceived,
};

// Progress of loading an alternate path, within kEstablished.
enum class LapState : uint8_t {
  kNone,  // no LAP yet
  kIdle,
  kSent,
  kReceived,
  kMraSent,
  kMraReceived,
};

// Whether a peer's request waits for the user's answer. A request that was accepted does not count:
// the user has given it a queue pair.
constexpr bool IsHalfOpen(State state) {
  return state == State::kReqReceived || state == State::kMraReqSent ||
         state == State::kSidrReqReceived;
}

// The key by which a peer is recognised. The GID is part of it, so that only a sender with the
// peer's address can make us believe that its connection is gone.
struct PeerKey {
  uint64_t ca_guid = 0;
  uint32_t number = 0;  // a communication id, a request id or a QPN
  Gid gid{};

  auto operator<=>(const PeerKey&) const = default;
};

// The state behind one communication id: a connection, a listener, or a resolution.
struct Connection {
  CommunicationId local_id{};
  CommunicationId remote_id{};  // 0: not known yet
  State state = State::kIdle;
  LapState lap_state = LapState::kNone;
  bool is_used = false;      // an id can be used only once
  bool is_orphaned = false;  // destroyed by its user; the DREQ or the timewait goes on

  // Listener: the services it listens to. Else the service of the connection.
  ServiceId service_id{};
  uint64_t service_mask = kExactServiceMask;
  uint32_t backlog = 0;
  // Number of requests that wait for an answer of the listener's user; shared with the requests.
  std::shared_ptr<uint32_t> unanswered{};

  MadAddress peer{};  // the destination of the messages
  uint64_t transaction_id = 0;
  std::optional<PeerKey> remote_id_key{};   // while it is in the table of remote ids
  std::optional<PeerKey> remote_qpn_key{};  // while it is in the table of remote queue pairs

  TransportService service = TransportService::kReliableConnection;
  bool was_asked_for = false;  // the peer has sent the REQ; with XRC ours is the target then
  Qpn local_qpn{};
  Qpn remote_qpn{};
  Psn sq_psn{};
  Psn rq_psn{};
  Path path{};
  std::optional<Path> alternate_path{};
  std::optional<Path> offered_path{};  // by a LAP, until the APR
  uint8_t ack_timeout = 0;             // exponents
  uint8_t alternate_ack_timeout = 0;
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t retry_count = 0;
  uint8_t rnr_retry_count = 0;

  // The message that waits for an answer.
  MadBytes request{};
  Duration response_timeout{};  // of every request of this connection
  Duration request_timeout{};   // of this one; longer after an MRA
  uint8_t max_cm_retries = 0;
  uint8_t retries_left = 0;

  // The last answer, sent again for a duplicate of the message that it answers.
  MadBytes answer{};
  std::optional<Attribute> answer_kind{};

  // Retry, giving up, or the end of the timewait.
  Time deadline = kNever;
};

}  // namespace uroce::transport::cm
