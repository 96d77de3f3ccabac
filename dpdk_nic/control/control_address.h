#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/control/abstract_socket.h"
#include "dpdk_nic/control/messages.h"

// Where the uroced of a fabric is found. A fabric is a network namespace, a user and a name.

namespace uroce::nic::control {

// 1 to kMaxNameBytes letters, digits, dots, dashes and underscores. Functions that take a fabric
// fail with EINVAL for any other.
bool IsFabricName(std::string_view fabric);

// The name of the socket of a process that holds a block; see BlockClaim. Empty unless `fabric` is
// a fabric's name.
std::string BlockSocketName(uid_t daemon_uid, std::string_view fabric, Block block);

// The socket of this user's uroced. Invalid with errno, EADDRINUSE if there is one already.
UniqueFd ListenOnFabric(std::string_view fabric);

struct FabricConnection {
  UniqueFd socket;
  uid_t uid;  // of uroced
};
// To this user's uroced or, if there is none, to root's, which serves whom it likes. Does not
// block. nullopt with errno: ECONNREFUSED if there is neither, EAGAIN if this user's is too busy to
// accept, EPERM if only others hold the names.
std::optional<FabricConnection> ConnectToFabric(std::string_view fabric);
// To the uroced of this user only; invalid with errno.
UniqueFd ConnectToFabricOf(uid_t uid, std::string_view fabric);

}  // namespace uroce::nic::control
