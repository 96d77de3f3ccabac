#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/control/protocol.h"

namespace uroce::nic {

// A process that attacks another of its fabric (attacks.h) as long as this object lives. It runs
// this program again.
class HostileProcess {
 public:
  HostileProcess(const std::string& attack, const std::string& fabric, control::Block victim);
  ~HostileProcess();
  HostileProcess(const HostileProcess&) = delete;
  HostileProcess& operator=(const HostileProcess&) = delete;

  // Call it first in main(): it does not return in a hostile process.
  static void RunIfAsked(int argc, char** argv);

  // Waits for more rounds of the attack. False if the attack does not go on, or has achieved what
  // no defence may allow; standard error says what.
  bool AwaitRounds(size_t rounds);
  void PinTo(int cpu);

 private:
  pid_t pid_ = 0;
  UniqueFd reports_;
};

}  // namespace uroce::nic
