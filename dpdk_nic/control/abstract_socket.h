#pragma once

#include <sys/types.h>

#include <optional>
#include <string_view>

#include "dpdk_nic/base/unique_fd.h"

// Unix stream sockets with abstract names: no file is left behind by a killed process, and a
// network namespace has names of its own. They have no permissions either: anybody may hold a name
// or connect to it, so both ends look at the credentials of the other.

namespace uroce::nic::control {

// A listener that does not block; invalid with errno, EADDRINUSE if somebody has the name.
UniqueFd ListenOnName(std::string_view name, int backlog);

// A connection that does not block. Invalid with errno: ECONNREFUSED if nobody has the name, EAGAIN
// if more want to connect than its listener has accepted.
UniqueFd ConnectToName(std::string_view name);

// Of the process that made the other end of a connection: who called listen(), or connect(). `pid`
// is 0 if it is in a pid namespace that we do not see.
struct PeerCredentials {
  pid_t pid;
  uid_t uid;
  gid_t gid;
};
std::optional<PeerCredentials> PeerCredentialsOf(int socket);

}  // namespace uroce::nic::control
