#pragma once

#include <cstddef>
#include <cstdint>

#include "dpdk_nic/control/protocol.h"
#include "transport/ids.h"

// The messages about XRC domains that processes share by a file.

namespace uroce::nic::control {

// Opens the domain of the file that the message carries. `handle`: chosen by the sender, for one
// opening. `key`: zero, or of a domain that the sender has opened at an earlier uroced; `creates`
// and `exclusive` are ignored then.
struct OpenXrcDomain {
  static constexpr MessageType kType = MessageType::kOpenXrcDomain;
  static constexpr size_t kDescriptors = 1;
  uint64_t handle;
  transport::XrcKey key;
  uint32_t creates;    // 1: if there is none yet (O_CREAT)
  uint32_t exclusive;  // 1: only if there is none yet (O_EXCL)
};

// EAGAIN: there is no domain, and the sender does not create one. EINVAL: there is one, and the
// sender wants to be alone. ENOMEM: the sender has too many. Other values: those of fstat().
struct XrcDomainAnswer {
  static constexpr MessageType kType = MessageType::kXrcDomainAnswer;
  static constexpr size_t kDescriptors = 0;
  uint64_t handle;
  transport::XrcKey key;
  ErrnoValue error;
  uint32_t reserved;
};

// The domain exists until the last process that has opened it closes it, or ends.
struct CloseXrcDomain {
  static constexpr MessageType kType = MessageType::kCloseXrcDomain;
  static constexpr size_t kDescriptors = 0;
  uint64_t handle;
};
struct XrcDomainClosed {
  static constexpr MessageType kType = MessageType::kXrcDomainClosed;
  static constexpr size_t kDescriptors = 0;
  uint64_t handle;
};

}  // namespace uroce::nic::control
