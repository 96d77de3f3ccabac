#pragma once

#include <unistd.h>

#include <atomic>
#include <string>

namespace uroce::nic {

// The name of a fabric that no other test, and no other run of this one, uses.
inline std::string UniqueFabricName() {
  static std::atomic<int> count = 0;
  return "test-" + std::to_string(getpid()) + "-" + std::to_string(count++);
}

}  // namespace uroce::nic
