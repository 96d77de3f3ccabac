#include "dpdk_nic/memif_link.h"

#include <rte_alarm.h>
#include <rte_ethdev.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace uroce::nic {
namespace {

// A restart takes 6 ms once a server is there; 20 ms are soon enough for a person and cost next to
// nothing meanwhile.
constexpr uint64_t kRetryIntervalUs = 20'000;
// A client that got through to the socket may wait this long for the handshake.
constexpr int kAlarmsForHandshake = 10;

bool SomebodyListens(const sockaddr_un& address) {
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  if (fd < 0) return true;
  const bool connected =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  const bool refused = !connected && errno == ECONNREFUSED;
  close(fd);
  return !refused;
}

}  // namespace

bool RemoveStaleMemifSocket(const Devargs& devargs, std::string* error) {
  if (*devargs.Find("role") != "server" || *devargs.Find("socket-abstract") != "no") return true;
  const std::string& path = *devargs.Find("socket");
  struct stat status{};
  if (lstat(path.c_str(), &status) != 0) return true;
  if (!S_ISSOCK(status.st_mode)) {
    *error = path + " exists and is not a socket; choose another socket= for " + devargs.device();
    return false;
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, path.data(), path.size());  // checked by Devargs
  if (SomebodyListens(address)) {
    *error = "another process serves " + path + " already; use role=client or another socket= for " +
             devargs.device();
    return false;
  }
  if (status.st_uid != geteuid() || unlink(path.c_str()) != 0) {
    *error = path + " was left behind by another user; remove it or choose another socket= for " +
             devargs.device();
    return false;
  }
  return true;
}

MemifLink::MemifLink(uint16_t ethdev_id, bool is_client, bool started)
    : ethdev_id_(ethdev_id), is_client_(is_client), usable_(started) {
  Watch();
}

MemifLink::~MemifLink() {
  closing_ = true;
  rte_eal_alarm_cancel(OnAlarm, this);  // waits for one that is running
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
  const bool handshake_is_late = alarms_since_start_ == 0 || alarms_since_start_ > kAlarmsForHandshake;
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
