#pragma once

#include <cstdint>
#include <vector>

#include "transport/completion.h"
#include "transport/ids.h"
#include "transport/work_request.h"

namespace uroce::transport::simulation {

// A message that uses up a receive request: what the sender sends and the receiver must see.
struct Message {
  SendOpcode opcode = SendOpcode::kSend;
  std::vector<uint8_t> bytes = {};  // of a SEND; a WRITE with immediate goes elsewhere
  uint32_t length = 0;
  uint32_t immediate = 0;
  RKey invalidate_rkey = {};
  bool solicited = false;
  size_t queue = 0;  // XRC: index of the peer's shared receive queue
  // Not kSuccess: the message is wrong on purpose, and the receive completes with this status.
  CompletionStatus receive_status = CompletionStatus::kSuccess;
};

}  // namespace uroce::transport::simulation
