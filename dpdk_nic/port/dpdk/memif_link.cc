#include "dpdk_nic/port/dpdk/memif_link.h"

#include <rte_alarm.h>
#include <rte_ethdev.h>

namespace uroce::nic {
namespace {

// A restart takes 6 ms once a server is there; 20 ms are soon enough for a person and cost next to
// nothing meanwhile.
constexpr uint64_t kRetryIntervalUs = 20'000;
// A client that has reached the socket may wait for the handshake for so many alarms.
constexpr int kAlarmsForHandshake = 10;

}  // namespace

MemifLink::MemifLink(uint16_t ethdev_id, bool is_client, bool started)
    : ethdev_id_(ethdev_id), is_client_(is_client), usable_(started) {
  Watch();
}

MemifLink::~MemifLink() {
  closing_ = true;
  rte_eal_alarm_cancel(OnAlarm, this);  // waits for an alarm that is running
}

bool MemifLink::LinkUp() const {
  rte_eth_link link{};
  return rte_eth_link_get_nowait(ethdev_id_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

void MemifLink::Watch() {
  if (!is_client_ || retrying_.load(std::memory_order_relaxed) || LinkUp()) return;
  if (retrying_.exchange(true)) return;
  alarms_since_start_ = 0;
  if (rte_eal_alarm_set(kRetryIntervalUs, OnAlarm, this) != 0) retrying_ = false;
}

void MemifLink::OnAlarm(void* link) { static_cast<MemifLink*>(link)->Retry(); }

void MemifLink::Retry() {
  if (closing_) return;
  if (usable_ && LinkUp()) {
    retrying_ = false;
    return;
  }
  // At the first alarm the connection was found lost (0); later ones wait for the handshake.
  const bool handshake_is_late =
      alarms_since_start_ == 0 || alarms_since_start_ > kAlarmsForHandshake;
  if (!usable_ || handshake_is_late) {
    const bool was_started = usable_.exchange(false);
    guard_.WaitUntilIdle();
    if (was_started) rte_eth_dev_stop(ethdev_id_);
    usable_ = rte_eth_dev_start(ethdev_id_) == 0;
    alarms_since_start_ = 0;
  }
  ++alarms_since_start_;
  if (rte_eal_alarm_set(kRetryIntervalUs, OnAlarm, this) != 0) retrying_ = false;
}

}  // namespace uroce::nic
