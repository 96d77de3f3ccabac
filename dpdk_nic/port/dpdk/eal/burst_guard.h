#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace uroce::nic {

// Keeps a port's receive and transmit bursts apart from the thread that removes the device. The
// polling thread marks every burst; the other thread first makes new bursts impossible (a flag that
// the polling thread checks after its mark), then waits until no burst is going on.
//
// The memif driver needs this too (memif_shims.cc): when the peer dies, its interrupt thread unmaps
// the shared memory even while the polling thread is copying from it.
class BurstGuard {
 public:
  BurstGuard();
  ~BurstGuard();
  BurstGuard(const BurstGuard&) = delete;
  BurstGuard& operator=(const BurstGuard&) = delete;

  // The full barrier orders the mark before the polling thread's check of the flag.
  void Enter() { active_.exchange(true, std::memory_order_seq_cst); }
  void Leave() { active_.store(false, std::memory_order_release); }

  // Returns when no burst that began before the call is still going on.
  void WaitUntilIdle();

  // The same for all ports of the process.
  static void WaitUntilAllIdle();

  // The polling thread found nothing to receive.
  void CountEmptyReceive() {
    const uint64_t count = empty_receives_.load(std::memory_order_relaxed);
    empty_receives_.store(count + 1, std::memory_order_release);
  }
  // Returns when every port has found nothing to receive, or `timeout` is over (perhaps no thread
  // polls).
  static void WaitUntilAllDrained(std::chrono::milliseconds timeout);

 private:
  std::atomic<uint64_t> empty_receives_{0};
  std::atomic<bool> active_{false};
};

}  // namespace uroce::nic
