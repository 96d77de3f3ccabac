#pragma once

#include "verbs_provider/abi/calibration.h"
#include "verbs_provider/abi/core_library.h"
#include "verbs_provider/abi/private_abi.h"

namespace uroce::verbs::abi {

// Longest op table that can be calibrated; the longest so far has 93 entries.
inline constexpr int kMaxSlots = 192;

// Observes the layout of the installed libibverbs by experiment: opens a throw-away context whose
// ops are numbered trampolines and looks where they come out again, in the public structs and by
// calling public verbs. `sysfs` is lent from a discovered device (releases before v37 read it).
// Returns an empty string, or what went wrong; `layout` then is of no use. Not thread-safe.
[[nodiscard]] std::string ObserveLayout(const CoreLibrary& core, SysfsDevice* sysfs,
                                        Layout& layout);

}  // namespace uroce::verbs::abi
