// Ends ids when the device is gone for good: cma_remove_one and ucma_close_id of Linux.
#include <vector>

#include "verbs_provider/rdma_cm/agent.h"

namespace uroce::verbs::rdma_cm {

// An id that listens at all addresses belongs to no device, and gets no event.
void Agent::RemoveDevice() {
  std::vector<Id*> ids;
  ids_.ForEach([&](Id& id) {
    if (id.has_device && id.state != IdState::kDeviceRemoved) ids.push_back(&id);
  });
  for (const auto& [number, id] : connections_) {
    if (id->handle == kNoHandle) ids.push_back(id);  // of a request that was not fetched
  }
  for (Id* const id : ids) RemoveDeviceOf(*id);
}

// The id's queued events and multicast handles stay until it is destroyed.
void Agent::RemoveDeviceOf(Id& id) {
  Tell(id, UserEvent::kDeviceRemoval);
  resolving_.erase(&id);
  if (id.state == IdState::kListening) StopListening(id);
  EndConnection(id);
  ports_.Unbind(id.binding);
  id.state = IdState::kDeviceRemoved;
}

}  // namespace uroce::verbs::rdma_cm
