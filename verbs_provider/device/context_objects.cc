#include "verbs_provider/device/context_objects.h"

#include "transport/endpoint.h"
#include "verbs_provider/objects/completion_queue.h"
#include "verbs_provider/objects/memory_region.h"
#include "verbs_provider/objects/memory_window.h"
#include "verbs_provider/objects/queue_pair.h"
#include "verbs_provider/objects/shared_receive_queue.h"
#include "verbs_provider/objects/xrc_domain.h"

namespace uroce::verbs {

void ContextObjects::Abandon() {
  const std::lock_guard lock(lock_);
  queue_pairs_.ForEach([](QueuePair& qp) { (void)RemoveFromTransport(qp); });
  shared_receive_queues_.ForEach([](SharedReceiveQueue& srq) { RemoveFromTransport(srq); });
  xrc_domains_.ForEach(
      [](XrcDomainHandle& handle) { handle.device->xrc_domains().Close(handle.domain); });
  completion_queues_.ForEach([](CompletionQueue& cq) { RemoveFromTransport(cq); });
  memory_windows_.ForEach([](MemoryWindow& mw) { (void)RemoveFromTransport(mw); });
  memory_regions_.ForEach([](MemoryRegion& mr) { (void)RemoveFromTransport(mr); });
}

}  // namespace uroce::verbs
