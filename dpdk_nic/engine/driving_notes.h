#pragma once

#include <atomic>
#include <cstdint>

namespace uroce::nic {

// Notes between an engine's progress thread and the application's threads, made without the lock.
class DrivingNotes {
 public:
  // Grows with each pass of an application thread, and with the work in it. Not exact: concurrent
  // additions overwrite each other.
  uint64_t application_work() const { return application_work_.load(std::memory_order_relaxed); }
  void CountApplicationWork(int work) {
    application_work_.store(application_work() + static_cast<uint64_t>(work),
                            std::memory_order_relaxed);
  }

  // An application thread may be asleep until an event comes.
  bool application_waits() const { return application_waits_.load(std::memory_order_relaxed); }
  void SetApplicationWaits(bool does) { application_waits_.store(does, std::memory_order_relaxed); }

  // The progress thread stands by: it looks now and then whether the application still drives.
  bool is_watched() const { return is_watched_.load(std::memory_order_relaxed); }
  void SetWatched(bool does) { is_watched_.store(does, std::memory_order_relaxed); }

 private:
  alignas(64) std::atomic<uint64_t> application_work_{0};
  std::atomic<bool> is_watched_{false};
  std::atomic<bool> application_waits_{false};
};

}  // namespace uroce::nic
