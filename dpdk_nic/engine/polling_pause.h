#pragma once

#include "dpdk_nic/engine/drive_policy/poll_policy.h"
#include "transport/time.h"

namespace uroce::nic {

// Carries out what PollPolicy decides for one polling thread.
class PollingPause {
 public:
  void PollWorked() { policy_.PollWorked(); }
  // Returns whether it yielded.
  bool PollFailed();
  void PollRefused();
  bool IsHogged(transport::Time now) const { return policy_.IsHogged(now); }

 private:
  void Carry(PollPolicy::Pause pause);

  PollPolicy policy_;
};

}  // namespace uroce::nic
