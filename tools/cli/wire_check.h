// Finds out before a program is started whether its device would have a wire.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "dpdk_nic/device_config.h"

namespace uroce::cli {

// Opens the DPDK port of a direct-mode configuration in this process, with the DPDK that is in
// `dpdk_library`, and closes it again. Returns nothing if that went well, otherwise one sentence
// without full stop, which says what to do.
//
// Leaves DPDK's threads behind: call it only where exec() follows.
std::optional<std::string> WhyPortCannotBeOpened(const nic::DeviceConfig& config,
                                                 const std::filesystem::path& dpdk_library);

}  // namespace uroce::cli
