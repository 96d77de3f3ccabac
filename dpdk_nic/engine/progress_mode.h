#pragma once

namespace uroce::nic {

// Who drives an engine.
enum class ProgressMode {
  kAuto,       // whoever polls or posts; a helper thread, which sleeps when it can, does the rest
  kDedicated,  // a thread that is pinned to a processor of its own and never sleeps
};

}  // namespace uroce::nic
