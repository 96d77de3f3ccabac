#include "dpdk_nic/device/await_link.h"

#include <chrono>
#include <thread>

#include "dpdk_nic/base/log.h"

namespace uroce::nic {
namespace {

// NICs of 1 Gbit/s on copper are the slowest.
constexpr std::chrono::seconds kPatience{4};
constexpr std::chrono::milliseconds kPause{1};  // polled: NICs report a link by interrupts only

}  // namespace

void AwaitLink(const std::string& name, PacketPort* port) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!port->active() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kPause);
    port->ServeLink();
  }
  if (port->active()) return;
  Log(LogLevel::kWarning, name +
                              " has no link, and sends nothing until it has: check its cable, "
                              "and the port at the other end");
}

}  // namespace uroce::nic
