#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstddef>
#include <new>
#include <span>

#include "transport/endpoint.h"
#include "transport/limits.h"
#include "transport/work_request.h"
#include "verbs_provider/base/c_boundary.h"
#include "verbs_provider/device/device.h"

namespace uroce::verbs {

// The scatter/gather entries of one work request in the transport's form. Plain bytes underneath,
// as constructing the longest possible list each time would cost more than most lists.
class SgeList {
 public:
  // False if there are more entries than any queue takes.
  bool Assign(const ibv_sge* list, int count) {
    if (count < 0 || static_cast<uint32_t>(count) > transport::kMaxSges) return false;
    count_ = static_cast<size_t>(count);
    for (size_t i = 0; i < count_; ++i) {
      new (storage_ + i * sizeof(transport::ScatterGatherEntry)) transport::ScatterGatherEntry{
          list[i].addr, list[i].length, transport::LKey{list[i].lkey}};
    }
    return true;
  }
  std::span<const transport::ScatterGatherEntry> entries() const {
    const auto* first = reinterpret_cast<const transport::ScatterGatherEntry*>(storage_);
    return {std::launder(first), count_};
  }

 private:
  size_t count_ = 0;
  alignas(transport::ScatterGatherEntry)
      std::byte storage_[transport::kMaxSges * sizeof(transport::ScatterGatherEntry)];
};

// Posts a chain of work requests under one lock, the engine's, which the verb given to `post_one`
// holds. Both functions return 0 or an errno value. The first request that cannot be posted ends
// the chain, and *bad_wr points to it.
template <class WorkRequest, class PostOne>
int PostChain(Device& device, nic::Engine& engine, WorkRequest* wr, WorkRequest** bad_wr,
              PostOne post_one) {
  return SettingErrno([&] {
    if (device.lost_by_fork()) {
      *bad_wr = wr;
      return EIO;
    }
    const nic::Engine::Verb verb(engine);
    for (; wr != nullptr; wr = wr->next) {
      if (const int error = post_one(verb, *wr)) {
        *bad_wr = wr;
        return error;
      }
    }
    return 0;
  });
}

// Posts a chain of receive requests to `queue`: a queue pair or a shared receive queue.
template <class Queue>
int PostReceiveChain(Device& device, nic::Engine& engine, Queue& queue, ibv_recv_wr* wr,
                     ibv_recv_wr** bad_wr,
                     transport::Status (Queue::*post)(const transport::ReceiveWorkRequest&)) {
  return PostChain(
      device, engine, wr, bad_wr, [&](const nic::Engine::Verb&, const ibv_recv_wr& one) {
        SgeList sges;
        if (!sges.Assign(one.sg_list, one.num_sge)) return EINVAL;
        return static_cast<int>((queue.*post)({.wr_id = one.wr_id, .sges = sges.entries()}));
      });
}

}  // namespace uroce::verbs
