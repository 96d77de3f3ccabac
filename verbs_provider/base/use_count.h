#pragma once

#include <atomic>
#include <cstdint>

namespace uroce::verbs {

// Counts the objects that depend on this one. An object in use cannot be destroyed: EBUSY.
class UseCount {
 public:
  void Add() { users_.fetch_add(1, std::memory_order_relaxed); }
  void Remove() { users_.fetch_sub(1, std::memory_order_release); }
  bool in_use() const { return users_.load(std::memory_order_acquire) != 0; }

 private:
  std::atomic<uint32_t> users_{0};
};

// Limits what the device has a fixed number of: objects of one kind, or pages of memory.
class Quota {
 public:
  explicit Quota(uint32_t limit) : limit_(limit) {}

  // False when fewer than `count` are left; none is taken then.
  [[nodiscard]] bool Take(uint32_t count = 1) {
    uint32_t taken = taken_.load(std::memory_order_relaxed);
    do {
      if (count > limit_ - taken) return false;
    } while (!taken_.compare_exchange_weak(taken, taken + count, std::memory_order_relaxed));
    return true;
  }
  void Return(uint32_t count = 1) { taken_.fetch_sub(count, std::memory_order_relaxed); }

 private:
  const uint32_t limit_;
  std::atomic<uint32_t> taken_{0};
};

// Takes one of `quota` while an object is created; the destructor returns it unless Keep() ran.
class PendingQuota {
 public:
  explicit PendingQuota(Quota& quota) : quota_(quota.Take() ? &quota : nullptr) {}
  ~PendingQuota() {
    if (quota_ != nullptr) quota_->Return();
  }
  PendingQuota(const PendingQuota&) = delete;
  PendingQuota& operator=(const PendingQuota&) = delete;

  // False when the quota was used up.
  bool taken() const { return quota_ != nullptr; }
  void Keep() { quota_ = nullptr; }

 private:
  Quota* quota_;
};

}  // namespace uroce::verbs
