#pragma once

#include <string>

#include "dpdk_nic/base/error_or.h"
#include "dpdk_nic/control/status_messages.h"

namespace uroce::nic {

// The description of a fabric, for a program that does not attach: costs uroced one short
// connection. Blocks for a moment, or as long as uroced's queue is full; an error says what to do.
ErrorOr<control::StatusDaemon> QueryFabric(const std::string& fabric);

}  // namespace uroce::nic
