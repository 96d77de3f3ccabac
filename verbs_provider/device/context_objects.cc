#include "verbs_provider/device/context_objects.h"

#include <cerrno>

#include "transport/endpoint.h"
#include "verbs_provider/objects/completion_queue.h"
#include "verbs_provider/objects/memory_region.h"
#include "verbs_provider/objects/memory_window.h"
#include "verbs_provider/objects/queue_pair.h"
#include "verbs_provider/objects/shared_receive_queue.h"
#include "verbs_provider/objects/xrc_domain.h"

namespace uroce::verbs {

int ContextObjects::CheckEntry(uint32_t handle, Entry expected) {
  const nic::MutexLock lock(lock_);
  const auto found = objects_.find(handle);
  if (found == objects_.end()) return ENOENT;
  return found->second == expected ? 0 : EINVAL;
}

template <class Object, class F>
void ContextObjects::ForEach(F f) {
  for (const auto& [handle, entry] : objects_) {
    if (Object* const* const object = std::get_if<Object*>(&entry)) f(**object);
  }
}

void ContextObjects::Abandon() {
  const nic::MutexLock lock(lock_);
  ForEach<QueuePair>([](QueuePair& qp) { (void)RemoveFromTransport(qp); });
  ForEach<SharedReceiveQueue>([](SharedReceiveQueue& srq) { RemoveFromTransport(srq); });
  ForEach<XrcDomainHandle>([](XrcDomainHandle& handle) {
    handle.device->xrc_domains().Close(handle.device->engine(), handle.domain);
  });
  ForEach<CompletionQueue>([](CompletionQueue& cq) { RemoveFromTransport(cq); });
  ForEach<MemoryWindow>([](MemoryWindow& mw) { (void)RemoveFromTransport(mw); });
  ForEach<MemoryRegion>([](MemoryRegion& mr) { (void)RemoveFromTransport(mr); });
}

}  // namespace uroce::verbs
