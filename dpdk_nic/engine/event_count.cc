#include "dpdk_nic/engine/event_count.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace uroce::nic {

void EventCount::Wait(uint32_t seen, transport::Time until) {
  const timespec deadline = {until.ns / 1'000'000'000, until.ns % 1'000'000'000};
  syscall(SYS_futex, &count_, FUTEX_WAIT_BITSET_PRIVATE, seen, &deadline, nullptr,
          FUTEX_BITSET_MATCH_ANY);
}

void EventCount::WakeAll() {
  syscall(SYS_futex, &count_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace uroce::nic
