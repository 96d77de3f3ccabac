#pragma once

#include <sys/types.h>

#include <fstream>
#include <string>

namespace uroce {

// Whether a thread of this process sleeps.
inline bool IsAsleep(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string id, name, state;
  file >> id >> name >> state;
  return state == "S";
}

}  // namespace uroce
