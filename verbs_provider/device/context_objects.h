#pragma once

#include <mutex>

#include "verbs_provider/base/object_list.h"

namespace uroce::verbs {

struct CompletionQueue;
struct MemoryRegion;
struct MemoryWindow;
struct QueuePair;
struct SharedReceiveQueue;
struct XrcDomainHandle;

// The objects of a context that exist in the transport.
//
// When a program closes its device without destroying them, peers must no longer write to its
// memory and it must get no more events: the kernel destroys what is left, and so do we. The
// structs stay, because the program may still point to them.
class ContextObjects {
 public:
  template <class Object>
  void Add(Object& object) {
    const std::lock_guard lock(lock_);
    ListOf(object).Add(object);
  }
  template <class Object>
  void Remove(Object& object) {
    const std::lock_guard lock(lock_);
    ListOf(object).Remove(object);
  }

  // Removes all remaining objects from the transport, each before the objects that it uses.
  void Abandon();

 private:
  ObjectList<QueuePair>& ListOf(const QueuePair&) { return queue_pairs_; }
  ObjectList<SharedReceiveQueue>& ListOf(const SharedReceiveQueue&) {
    return shared_receive_queues_;
  }
  ObjectList<XrcDomainHandle>& ListOf(const XrcDomainHandle&) { return xrc_domains_; }
  ObjectList<CompletionQueue>& ListOf(const CompletionQueue&) { return completion_queues_; }
  ObjectList<MemoryRegion>& ListOf(const MemoryRegion&) { return memory_regions_; }
  ObjectList<MemoryWindow>& ListOf(const MemoryWindow&) { return memory_windows_; }

  std::mutex lock_;
  ObjectList<QueuePair> queue_pairs_;
  ObjectList<SharedReceiveQueue> shared_receive_queues_;
  ObjectList<XrcDomainHandle> xrc_domains_;
  ObjectList<CompletionQueue> completion_queues_;
  ObjectList<MemoryRegion> memory_regions_;
  ObjectList<MemoryWindow> memory_windows_;
};

}  // namespace uroce::verbs
