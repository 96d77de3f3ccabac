#pragma once

#include <functional>
#include <string>

#include "dpdk_nic/control/protocol.h"

namespace uroce::nic {

// The attacks of hostile processes. Each goes on until the process is killed, and calls `round`
// again and again.
struct Target {
  std::string fabric;
  control::Block block;  // of the victim
  std::function<void()> round;
  // Called when the attack has achieved what no defence may allow.
  std::function<void(const char* what)> succeeded;
};

// The names that Attack takes.
//   offers     offers the victim one link after the other
//   sockets    has links in the name of 70 processes, and keeps their sockets full
//   holes      punches holes into the memory of its link, before and after it is mapped
//   garbage    writes anything into the rings of its link, and wakes the victim for it
//   uplink     writes anything into the rings of its uplink
//   unauthenticated  connects to uroced again and again, and sends nothing
//   deaf       sends requests to uroced and the victim, and reads no answer
//   contacts   sends datagrams to every block by its uplink, as fast as it can
//   deaths     processes that are killed in the middle of attaching, linking and sending
[[noreturn]] void Attack(const std::string& name, const Target& target);

}  // namespace uroce::nic
