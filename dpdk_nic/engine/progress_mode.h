#pragma once

namespace uroce::nic {

// Which thread drives an engine.
enum class ProgressMode {
  kAuto,  // threads that poll or post; a progress thread, which sleeps when it can, does the rest
  kDedicated,  // a thread that is pinned to a processor of its own and never sleeps
};

}  // namespace uroce::nic
