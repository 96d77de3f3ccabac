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

// Loading of an alternate path, within kEstablished.
enum class LapState : uint8_t {
  kNone,  // there was none yet
  kIdle,
  kSent,
  kReceived,
  kMraSent,
  kMraReceived,
};

// A peer's request that the user has not answered yet. One that was accepted is the user's: it has
// a queue pair.
constexpr bool IsHalfOpen(State state) {
  return state == State::kReqReceived || state == State::kMraReqSent ||
         state == State::kSidrReqReceived;
}

// How a peer is known again. The GID is part of it, so that only the peer itself, or one that can
// send in its name, makes us believe that its connection is gone.
struct PeerKey {
  uint64_t ca_guid = 0;
  uint32_t number = 0;  // a communication id, a request id or a QPN
  Gid gid{};

  auto operator<=>(const PeerKey&) const = default;
};

// One communication id and all that is known of it: a connection, a listener, or a resolution.
struct Connection {
  CommunicationId local_id{};
  CommunicationId remote_id{};  // 0: not known yet
  State state = State::kIdle;
  LapState lap_state = LapState::kNone;
  bool is_used = false;      // an id serves once
  bool is_orphaned = false;  // its user has destroyed it; what is owed to the peer goes on

  // Listener: what it listens to. Else the service of the connection.
  ServiceId service_id{};
  uint64_t service_mask = kExactServiceMask;
  uint32_t backlog = 0;
  // How many requests wait for an answer of the listener's user; shared with these requests.
  std::shared_ptr<uint32_t> unanswered{};

  MadAddress peer{};  // where the messages go
  uint64_t transaction_id = 0;
  std::optional<PeerKey> remote_id_key{};   // while it is in the table of remote ids
  std::optional<PeerKey> remote_qpn_key{};  // while it is in the table of remote queue pairs

  TransportService service = TransportService::kReliableConnection;
  bool was_asked_for = false;  // by the peer; of XRC, ours is then the target
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

  // The last answer, which goes out again for a duplicate of what it answers.
  MadBytes answer{};
  std::optional<Attribute> answer_kind{};

  // Retry, giving up, or the end of the timewait.
  Time deadline = kNever;
};

}  // namespace uroce::transport::cm
