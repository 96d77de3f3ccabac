#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dpdk_nic/base/error_or.h"
#include "dpdk_nic/control/status_messages.h"
#include "dpdk_nic/engine/published_state.h"

namespace uroce::nic {

// A process of the fabric. The texts and numbers that other processes supply may be anything.
struct ClientStatus {
  control::StatusClient client;
  // The state that the process had published when it was read; nullopt if this build cannot read
  // it.
  std::optional<PublishedStateView::Snapshot> endpoint;
};

// The status of a fabric, from its uroced and from the states that its processes publish.
struct FabricStatus {
  std::string fabric;
  control::StatusDaemon daemon{};
  std::vector<ClientStatus> clients;  // by block
  std::vector<control::StatusLink> links;
};

// Asks the uroced of the fabric; the processes do not notice. Blocks for a moment. The error says
// what to do.
ErrorOr<FabricStatus> AskForStatus(const std::string& fabric);

}  // namespace uroce::nic
