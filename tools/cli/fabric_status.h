// The texts that both outputs of a status use.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "dpdk_nic/device/fabric_status.h"
#include "transport/qp_attributes.h"

namespace uroce::cli {

using nic::AskForStatus;
using nic::ClientStatus;
using nic::FabricStatus;

std::string TextOf(const transport::Gid& gid);
std::string TextOf(const transport::MacAddress& mac);
std::string NameOf(transport::QpType type);
std::string NameOf(transport::QpState state);
// In bytes; 0: not an MTU.
uint32_t PathMtuBytes(transport::Mtu mtu);
// The fixed-size text of a message, up to its NUL or its end.
template <size_t N>
std::string TextOf(const std::array<char, N>& text) {
  return std::string(text.data(), strnlen(text.data(), N));
}

}  // namespace uroce::cli
