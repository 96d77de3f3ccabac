// Verbs objects that release themselves.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <string>

namespace system_test {

// Throws std::runtime_error; `error` is an errno.
[[noreturn]] void Fail(const std::string& call, int error);

// Calls the verb that destroys an object.
template <auto kRelease>
struct Releaser {
  template <typename Object>
  void operator()(Object* object) const {
    kRelease(object);
  }
};

// ibv_dealloc_mw has internal linkage, so that its address cannot name a type of this header.
inline void DeallocateWindow(ibv_mw* window) { ibv_dealloc_mw(window); }

using ContextHandle = std::unique_ptr<ibv_context, Releaser<ibv_close_device>>;
using DomainHandle = std::unique_ptr<ibv_pd, Releaser<ibv_dealloc_pd>>;
using RegionHandle = std::unique_ptr<ibv_mr, Releaser<ibv_dereg_mr>>;
using WindowHandle = std::unique_ptr<ibv_mw, Releaser<DeallocateWindow>>;
using ChannelHandle = std::unique_ptr<ibv_comp_channel, Releaser<ibv_destroy_comp_channel>>;
using QueueHandle = std::unique_ptr<ibv_cq, Releaser<ibv_destroy_cq>>;
using QueuePairHandle = std::unique_ptr<ibv_qp, Releaser<ibv_destroy_qp>>;

}  // namespace system_test
