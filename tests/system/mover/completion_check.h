// Checks of completions. All throw std::runtime_error with a sentence if a field is wrong.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <string>

#include "tests/system/mover/operation.h"

namespace mover {

// `where` names the stream and the operation.
void CheckSendCompletion(const ibv_wc& completion, const Operation& operation,
                         const std::string& where);
// `invalidated_rkey`: the key that a SEND with invalidate names, if the completion must report it.
void CheckReceiveCompletion(const ibv_wc& completion, const Operation& operation,
                            std::optional<uint32_t> invalidated_rkey, const std::string& where);

// The wr_id of the receive request for an operation.
uint64_t ReceiveWrId(const Operation& operation);

}  // namespace mover
