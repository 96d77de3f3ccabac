// Makes a fabric ready for a program that is about to be started.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "dpdk_nic/device/uplink_choice.h"

namespace uroce::cli {

struct FabricUplink {
  nic::UplinkChoice required;  // the fabric must have it
  nic::UplinkChoice started;   // a uroced that is started gets it
};

// Takes a lease of the fabric for the life of this process, across exec. If no uroced serves the
// fabric yet, starts `daemon` (uroced) in the background, which ends with the last process that
// uses it. Returns nullopt, or why that failed: one sentence without full stop, which says what to
// do.
std::optional<std::string> LeaseFabric(const std::string& fabric, const FabricUplink& uplink,
                                       const std::filesystem::path& daemon);

}  // namespace uroce::cli
