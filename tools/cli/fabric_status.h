// The status of a fabric, from its uroced and from what its processes publish.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "dpdk_nic/base/error_or.h"
#include "dpdk_nic/control/status_messages.h"
#include "dpdk_nic/engine/published_state.h"

namespace uroce::cli {

// A process of the fabric. The texts and numbers that other processes supply may be anything.
struct ClientStatus {
  nic::control::StatusClient client;
  // The state that the process had published when it was read; nullopt if this build cannot read
  // it.
  std::optional<nic::PublishedStateView::Snapshot> endpoint;
};

struct FabricStatus {
  std::string fabric;
  nic::control::StatusDaemon daemon{};
  std::vector<ClientStatus> clients;  // by block
  std::vector<nic::control::StatusLink> links;
};

// Asks the uroced of the fabric; the processes do not notice. The error says what to do.
nic::ErrorOr<FabricStatus> AskForStatus(const std::string& fabric);

// The texts that both outputs of a status use.
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
