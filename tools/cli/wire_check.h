// Finds out, before a program is started, whether it would get its port.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "dpdk_nic/device/device_config.h"

namespace uroce::cli {

// Returns why the port that `config` names for direct mode cannot be opened now: one sentence
// without full stop, which says what to do; nullopt if it can. Opens the port with the DPDK in
// `dpdk_library`, and closes it again, except where that would disturb the other side.
//
// May leave DPDK's threads behind: call it only where exec() follows.
std::optional<std::string> WhyPortCannotBeOpened(const nic::DeviceConfig& config,
                                                 const std::filesystem::path& dpdk_library);

}  // namespace uroce::cli
