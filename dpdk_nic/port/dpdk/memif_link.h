#pragma once

#include <atomic>
#include <cstdint>

#include "dpdk_nic/port/dpdk/eal/burst_guard.h"

namespace uroce::nic {

// The connection of a memif port, either end of which may die and come back while the port is being
// polled. A server needs nothing: its clients come back. A client never reconnects by itself, and
// cannot start without a server: its device is stopped and started until one answers.
//
//                Watch() sees no link            link is up
//   connected ------------------------> retrying -----------> connected
//                                        |    ^
//                                        +----+ every 20 ms: stop, start
class MemifLink {
 public:
  // `started`: whether the device is started already.
  MemifLink(uint16_t ethdev_id, bool is_client, bool started);
  ~MemifLink();
  MemifLink(const MemifLink&) = delete;
  MemifLink& operator=(const MemifLink&) = delete;

  // Around every receive and transmit burst. No burst if BeginBurst returns false.
  bool BeginBurst() {
    guard_.Enter();
    if (usable_.load(std::memory_order_acquire)) return true;
    guard_.Leave();
    return false;
  }
  void EndBurst() { guard_.Leave(); }
  // To be called for every receive burst that brought nothing.
  void CountEmptyReceive() { guard_.CountEmptyReceive(); }

  // Called by the polling thread now and then: starts to restore a lost connection.
  void Watch();

 private:
  static void OnAlarm(void* link);
  void Retry();
  bool LinkUp() const;

  const uint16_t ethdev_id_;
  const bool is_client_;
  BurstGuard guard_;
  std::atomic<bool> usable_;           // the device is started
  std::atomic<bool> retrying_{false};  // an alarm is armed
  std::atomic<bool> closing_{false};
  // Used by the alarm, and by Watch before it arms one.
  int alarms_since_start_ = 0;
};

}  // namespace uroce::nic
