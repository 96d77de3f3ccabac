#pragma once

#include <unistd.h>

#include <atomic>
#include <string>

namespace uroce::nic {

// A link name that no other test, and no other run of this one, uses.
inline std::string UniqueLinkName() {
  static std::atomic<int> count = 0;
  return "test-" + std::to_string(getpid()) + "-" + std::to_string(count++);
}

}  // namespace uroce::nic
