#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "transport/cm/identifiers.h"
#include "transport/ids.h"
#include "transport/route.h"

namespace uroce::transport::cm {

// The fields by which processes that share an address tell which of them a message is for, or from.
//
// The two ends of a connection name it by a communication id each. Ours carry the block of their
// process in the upper bits, so that an answer finds it:
//
//   31        22 21                                  0
//  +------------+-------------------------------------+
//  |   block    |  which one, at random               |
//  +------------+-------------------------------------+
//
// The request id of SIDR is such an id, too. Requests go to the process that listens to their
// service id.
struct Steering {
  static constexpr int kBlockBits = 10;
  static_assert(kQpnBlocks == 1u << kBlockBits, "an id for each block");
  static constexpr uint32_t BlockOf(CommunicationId id) { return id.value >> (32 - kBlockBits); }

  // MAD header, and as much of the message as Parse reads.
  static constexpr size_t kParsedBytes = 24 + 20;

  // REQ and SIDR_REQ: the service asked for. SIDR_REP: the service that answers.
  std::optional<ServiceId> service = {};
  // The sender's; in all but SIDR_REP, which names only the requester.
  std::optional<CommunicationId> sender = {};
  // The receiver's; in all but requests.
  std::optional<CommunicationId> recipient = {};

  bool IsRequest() const { return !recipient.has_value(); }

  // From kParsedBytes bytes of a MAD; nullopt if it is of another class, or a message that the
  // specification does not know.
  static std::optional<Steering> Parse(const uint8_t* mad);
};

}  // namespace uroce::transport::cm
