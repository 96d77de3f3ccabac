#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "dpdk_nic/base/error_or.h"

namespace uroce::nic {

// The P_Key table for a list of P_Keys, such as "0x8001,0x0002": the default partition, which every
// device is a full member of, and then those of the list. Up to transport::kMaxPkeys entries, each
// of another partition. The error says what to give instead.
ErrorOr<std::vector<uint16_t>> ParsePkeys(std::string_view list);

}  // namespace uroce::nic
