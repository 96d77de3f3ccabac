// uroced: owns the NIC of a fabric and serves those who attach to it.
#pragma once

#include <optional>

#include "dpdk_nic/base/error_or.h"
#include "tools/daemon/options.h"

namespace uroce::daemon {

// Serves until SIGTERM or SIGINT or, if the fabric is private, until nobody uses it any more.
// Returns why it could not begin. A private fabric that somebody else serves already needs no
// other, and is no error.
std::optional<nic::Error> Serve(const Options& options);

}  // namespace uroce::daemon
