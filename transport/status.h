#pragma once

#include <cerrno>

namespace uroce::transport {

// The outcome of a verb. The values are those that the manual page of the verb promises as errno,
// so that the provider can hand them on as they are.
// clang-format off
enum class [[nodiscard]] Status : int {
  kOk = 0,
  kInvalidArgument = EINVAL,
  kNoMemory = ENOMEM,  // also: the queue is full
  kBadAddress = EFAULT,
  kBusy = EBUSY,
};
// clang-format on

}  // namespace uroce::transport
