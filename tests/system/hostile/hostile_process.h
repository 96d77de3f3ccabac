#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/control/protocol.h"

namespace uroce::nic {

// A process that attacks another of its fabric (attacks.h), for as long as this object lives. It is
// this program, started again.
class HostileProcess {
 public:
  HostileProcess(const std::string& attack, const std::string& fabric, control::Block victim);
  ~HostileProcess();
  HostileProcess(const HostileProcess&) = delete;
  HostileProcess& operator=(const HostileProcess&) = delete;

  // To be called first in main(): does not return in a hostile process.
  static void RunIfAsked(int argc, char** argv);

  // Waits for more rounds of the attack. False if it does not go on, or did what no defence may let
  // happen; standard error says what.
  bool AwaitRounds(size_t rounds);
  void PinTo(int cpu);

 private:
  pid_t pid_ = 0;
  UniqueFd reports_;
};

}  // namespace uroce::nic
