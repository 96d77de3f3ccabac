#pragma once

#include <cstdint>
#include <unordered_map>
#include <variant>

#include "dpdk_nic/base/mutex.h"
#include "dpdk_nic/base/thread_annotations.h"

namespace uroce::verbs {

struct AddressHandle;
struct CompletionQueue;
struct DeviceMemory;
struct Flow;
struct MemoryRegion;
struct MemoryWindow;
struct ProtectionDomain;
struct QueuePair;
struct SharedReceiveQueue;
struct XrcDomainHandle;

// The objects of a context by their handles, as the kernel has those of an open device file
// (rdma_core.c of Linux).
//
// When a program closes its device without destroying them, peers must no longer write to its
// memory and it must get no more events: the kernel destroys what is left, and so do we. The
// structs stay, because the program may still point to them.
class ContextObjects {
 public:
  // Returns the object's handle: unique among objects of all kinds, never 0, and not given out
  // again soon.
  template <class Object>
  uint32_t Add(Object& object) {
    const nic::MutexLock lock(lock_);
    do {
      ++last_handle_;
    } while (last_handle_ == 0 || objects_.contains(last_handle_));
    objects_.emplace(last_handle_, &object);
    return last_handle_;
  }
  void Remove(uint32_t handle) {
    const nic::MutexLock lock(lock_);
    objects_.erase(handle);
  }

  bool Has(uint32_t handle) {
    const nic::MutexLock lock(lock_);
    return objects_.contains(handle);
  }

  // The object of this kind with this handle; null if there is none.
  template <class Object>
  Object* Find(uint32_t handle) {
    const nic::MutexLock lock(lock_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    Object* const* const object = std::get_if<Object*>(&found->second);
    return object == nullptr ? nullptr : *object;
  }

  // 0 if `handle` is that of `object`, which may be a pointer to anything and is not followed.
  // ENOENT: no object has the handle. EINVAL: another object has it.
  template <class Object>
  int Check(uint32_t handle, const Object* object) {
    return CheckEntry(handle, const_cast<Object*>(object));
  }

  // Removes all remaining objects from the transport, each before the objects that it uses.
  void Abandon();

 private:
  using Entry = std::variant<AddressHandle*, CompletionQueue*, DeviceMemory*, Flow*, MemoryRegion*,
                             MemoryWindow*, ProtectionDomain*, QueuePair*, SharedReceiveQueue*,
                             XrcDomainHandle*>;

  int CheckEntry(uint32_t handle, Entry expected);
  template <class Object, class F>
  void ForEach(F f) UROCE_REQUIRES(lock_);

  nic::Mutex lock_;
  std::unordered_map<uint32_t, Entry> objects_ UROCE_GUARDED_BY(lock_);
  uint32_t last_handle_ UROCE_GUARDED_BY(lock_) = 0;
};

// Gives `object` a handle before anything else of it exists. The destructor takes the handle back
// unless Keep() ran.
class PendingHandle {
 public:
  template <class Object>
  PendingHandle(ContextObjects& objects, Object& object)
      : objects_(&objects), handle_(objects.Add(object)) {}
  ~PendingHandle() {
    if (objects_ != nullptr) objects_->Remove(handle_);
  }
  PendingHandle(const PendingHandle&) = delete;
  PendingHandle& operator=(const PendingHandle&) = delete;

  uint32_t Keep() {
    objects_ = nullptr;
    return handle_;
  }

 private:
  ContextObjects* objects_;
  const uint32_t handle_;
};

}  // namespace uroce::verbs
