#include <cerrno>
#include <cstring>
#include <string>

#include "dpdk_nic/control/control_address.h"
#include "dpdk_nic/port/udp/udp_address.h"
#include "tools/cli/fabric_status.h"
#include "tools/cli/finding.h"
#include "tools/cli/printable.h"

namespace uroce::cli {
namespace {

// The uplink of a fabric that no uroced serves yet.
Finding CheckUplinkToCome() {
  const auto addresses = nic::AllAddresses();
  if (addresses.empty()) {
    return {Verdict::kNote, "uplink",
            "none, the fabric will end at this host: it has no address that others reach"};
  }
  std::string text = "udp, opened when a program names another host; addresses";
  for (const auto& address : addresses) text += " " + nic::AddressText(address.gid);
  return {Verdict::kOk, "uplink", text};
}

}  // namespace

Finding CheckFabric(const std::string& fabric) {
  const std::string name = "'" + fabric + "'";
  if (const auto status = AskForStatus(fabric); status.ok()) {
    return {Verdict::kOk, "fabric",
            name + " is served by uroced " + std::to_string(status.value().daemon.pid) + ", " +
                std::to_string(status.value().clients.size()) + " processes are on it"};
  }
  // A uroced that gave no status may have been about to leave: see whether one is still there.
  if (!nic::control::ConnectToFabricWithRetry(fabric) && errno != ECONNREFUSED) {
    return {Verdict::kProblem, "fabric", nic::control::WhyNotConnected(fabric, errno)};
  }
  const auto made = nic::control::MakePlaceToServe();
  if (!made) {
    return {Verdict::kProblem, "fabric", nic::control::WhyNotConnected(fabric, errno)};
  }
  return {Verdict::kOk, "fabric",
          name + " is not served: 'uroce run' starts a uroced, in " + made->place.folder};
}

Finding CheckUplink(const std::string& fabric) {
  const auto status = AskForStatus(fabric);
  if (!status.ok()) return CheckUplinkToCome();
  if (!status.value().daemon.has_wire) {
    return {Verdict::kNote, "uplink",
            "none, the fabric ends at this host: to reach others, use one of another name on a "
            "host with a network"};
  }
  const auto& daemon = status.value().daemon;
  const std::string text = Printable(TextOf(daemon.port));
  if (!daemon.wire_is_up) {
    return {Verdict::kProblem, "uplink", text + " is down: see 'uroce status'"};
  }
  return {Verdict::kOk, "uplink", text + ", MTU " + std::to_string(daemon.mtu_bytes)};
}

}  // namespace uroce::cli
