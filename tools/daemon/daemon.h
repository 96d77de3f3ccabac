// uroced: owns the NIC of a fabric and serves the processes that attach to it.
#pragma once

#include <optional>

#include "dpdk_nic/base/error_or.h"
#include "tools/daemon/options.h"

namespace uroce::daemon {

// Serves until SIGTERM or SIGINT or, if the fabric is private, until it is not used any more.
// Returns why it could not begin; nullopt as well if another uroced already serves a private
// fabric.
std::optional<nic::Error> Serve(const Options& options);

}  // namespace uroce::daemon
