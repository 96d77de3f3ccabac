#pragma once

#include <infiniband/verbs.h>

#include <array>

#include "verbs_provider/abi/calibration.h"
#include "verbs_provider/abi/layout_probe.h"
#include "verbs_provider/abi/provider_ops.h"

namespace uroce::verbs::abi {

using OpTable = std::array<const void*, kMaxSlots>;

// The provider's ops in the order in which the installed library expects them (struct
// verbs_context_ops), null where there is none.
OpTable MakeOpTable(const ProviderOps& ops, void (*free_context)(ibv_context*),
                    const Layout& layout);

}  // namespace uroce::verbs::abi
