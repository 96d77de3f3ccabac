#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "dpdk_nic/port/udp/udp_address.h"

namespace uroce::nic {

// The sockets of this network namespace that are bound to UDP port 4791 of one address, and the
// other processes that have them open, as far as /proc shows them to this process.
struct PortHolders {
  struct Process {
    pid_t pid = 0;
    std::string name;
    bool is_stopped = false;
    bool is_uroced = false;  // has the name of this process
  };

  size_t sockets = 0;
  size_t own = 0;          // of these, open in this process
  bool all_found = false;  // each socket is this process's, or of one of `processes`
  std::vector<Process> processes;

  // Whether only processes that a uroced has left behind have sockets, except one of this process.
  // A uroced that lives has the first socket of its group.
  bool IsOrphaned() const;
  // "process 123 (name), which is stopped"; empty if no process was found.
  std::string Names() const;
};

// Looks through all processes that this user may see: takes milliseconds.
PortHolders FindPortHolders(const HostAddress& address);
// Their number only.
size_t CountSocketsAtPort(const HostAddress& address);

}  // namespace uroce::nic
