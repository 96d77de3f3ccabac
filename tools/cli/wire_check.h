// Finds out before a program is started whether it would get its port.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "dpdk_nic/device/device_config.h"

namespace uroce::cli {

// Whether the port that `config` names for direct mode can be opened now: nothing, or one sentence
// without full stop, which says what to do. The port is opened with the DPDK that is in
// `dpdk_library`, and closed again, except where that would disturb the other side.
//
// May leave DPDK's threads behind: call it only where exec() follows.
std::optional<std::string> WhyPortCannotBeOpened(const nic::DeviceConfig& config,
                                                 const std::filesystem::path& dpdk_library);

}  // namespace uroce::cli
