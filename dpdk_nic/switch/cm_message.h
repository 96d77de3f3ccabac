#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "dpdk_nic/control/messages.h"

namespace uroce::nic {

// What the switch has to know of a message of the communication manager: a datagram to queue pair 1
// that holds a MAD of the class "communication management".
//
// The two ends of a connection name it by a communication id each. Ours carry the block of their
// process in the upper bits, so that an answer finds it:
//
//   31        22 21                                  0
//  +------------+-------------------------------------+
//  |   block    |  which one, as the process likes    |
//  +------------+-------------------------------------+
//
// The request id of SIDR is such an id, too. Requests go to the process that listens to their
// service id.
struct CmMessage {
  static constexpr int kBlockShift = 22;

  // MAD header, and as much of the message as Parse reads.
  static constexpr size_t kParsedBytes = 24 + 20;
  static constexpr size_t kMadBytes = 256;

  // REQ and SIDR_REQ: the service asked for. SIDR_REP: the service that answers.
  std::optional<uint64_t> service_id = {};
  // The sender's; in all but SIDR_REP, which names only the asker.
  std::optional<uint32_t> sender_id = {};
  // The receiver's; in all but requests.
  std::optional<uint32_t> recipient_id = {};

  static constexpr control::Block BlockOf(uint32_t communication_id) {
    return communication_id >> kBlockShift;
  }

  // From kParsedBytes bytes of a MAD; nullopt if it is of another class, or a message that the
  // specification does not know.
  static std::optional<CmMessage> Parse(const uint8_t* mad);
};

}  // namespace uroce::nic
