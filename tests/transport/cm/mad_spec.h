#pragma once

#include <cstdint>

#include "transport/cm/mad.h"
#include "transport/cm/messages.h"
#include "transport/wire/byte_order.h"

namespace uroce::transport::cm {

// A MAD with only the fields that steer it.
struct MadSpec {
  Attribute attribute = Attribute::kReq;
  uint32_t first_id = 0;   // the sender's communication id, or a request id
  uint32_t second_id = 0;  // the recipient's communication id
  uint64_t request_service = 0;
  uint64_t answer_service = 0;

  MadBytes Build() const {
    MadBytes mad{};
    EmitMadHeader(MessageHeader(static_cast<uint16_t>(attribute)), mad.data());
    Store32(first_id, &mad[24]);
    Store32(second_id, &mad[28]);
    if (request_service != 0) Store64(request_service, &mad[32]);
    if (answer_service != 0) Store64(answer_service, &mad[36]);
    return mad;
  }
};

}  // namespace uroce::transport::cm
