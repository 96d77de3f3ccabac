// Sees to it that a program that is to be started finds its fabric.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "dpdk_nic/device/uplink_choice.h"

namespace uroce::cli {

struct FabricUplink {
  nic::UplinkChoice required;  // the fabric has to have it
  nic::UplinkChoice started;   // one that is started gets it
};

// Takes a lease of the fabric for the life of this process, across exec. If the fabric has no
// uroced yet, `daemon` (uroced) is started for it, in the background, and ends with the last that
// uses it; Returns why that cannot be, one sentence without full
// stop, which says what to do.
std::optional<std::string> LeaseFabric(const std::string& fabric, const FabricUplink& uplink,
                                       const std::filesystem::path& daemon);

}  // namespace uroce::cli
