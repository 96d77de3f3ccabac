#pragma once

#include <functional>
#include <string>

#include "dpdk_nic/control/protocol.h"

namespace uroce::nic {

// What hostile processes do. Each goes on until the process is killed, and calls `round` again and
// again on its way.
struct Target {
  std::string fabric;
  control::Block block;  // of the victim
  std::function<void()> round;
  // Something has happened that no defence may let happen.
  std::function<void(const char* what)> succeeded;
};

// The names that Attack takes.
//   offers     offers the victim one link after the other
//   sockets    has links in the name of 70 processes, and keeps their sockets full
//   holes      punches holes into the memory of its link, before and after it is mapped
//   garbage    writes anything into the rings of its link, and wakes the victim for it
//   uplink     writes anything into the rings of its uplink
//   unauthenticated  connects to uroced again and again, and says nothing
//   deaf       asks uroced and the victim for things, and hears no answer
//   contacts   sends datagrams to every block by its uplink, as fast as it can
//   deaths     processes that are killed in the middle of attaching, linking and sending
[[noreturn]] void Attack(const std::string& name, const Target& target);

}  // namespace uroce::nic
