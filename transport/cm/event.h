#pragma once

#include <cstdint>

#include "transport/cm/identifiers.h"
#include "transport/cm/mad.h"
#include "transport/cm/messages.h"

namespace uroce::transport::cm {

// The events for a user, in the order of enum ib_cm_event_type of Linux. "Error" means that the
// retries of the message are used up.
enum class EventKind : uint8_t {
  kReqError,
  kReqReceived,  // `id` is new and in kReqReceived: accept, reject, or acknowledge its receipt
  kRepError,
  kRepReceived,
  kRtuReceived,
  kUserEstablished,  // after CommunicationEstablished
  kDreqError,        // the connection is in timewait all the same
  kDreqReceived,
  kDrepReceived,
  kTimewaitExit,  // the queue pair may be used again
  kMraReceived,
  kRejReceived,
  kLapError,
  kLapReceived,
  kAprReceived,
  kSidrReqError,
  kSidrReqReceived,  // `id` is new
  kSidrRepReceived,
};

struct Event {
  EventKind kind{};
  CommunicationId id{};
  CommunicationId listener_id{};  // kReqReceived and kSidrReqReceived
  MadAddress source{};            // of `message`
  Message message{};              // of the kinds that end in "Received"
};

}  // namespace uroce::transport::cm
