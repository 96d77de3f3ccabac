#pragma once

#include <optional>

#include "verbs_provider/virtual_kernel/base/fd_table.h"

namespace uroce::verbs::virtual_kernel {

// A pipe with a separate reader for the application: O_NONBLOCK on it does not change our own ends,
// which never block.
struct EventPipe {
  PrivateFd read_end;
  PrivateFd write_end;
  int reader = -1;  // owned by the caller
};

// `flags` are those of open() for the reader: O_CLOEXEC and O_NONBLOCK. nullopt with errno. Where
// /proc is not mounted, it needs a folder to write to, /tmp or /dev/shm, for a moment.
std::optional<EventPipe> OpenEventPipe(int flags);

}  // namespace uroce::verbs::virtual_kernel
