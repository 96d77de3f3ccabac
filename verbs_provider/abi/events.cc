#include "verbs_provider/abi/events.h"

#include <rdma/ib_user_verbs.h>

#include "verbs_provider/abi/virtual_kernel_calls.h"

namespace uroce::verbs::abi {
namespace {

uint64_t AddressOf(const ibv_cq* cq) { return reinterpret_cast<uintptr_t>(cq); }

}  // namespace

bool PostCompletionEvent(const ibv_comp_channel* channel, const ibv_cq* cq) {
  const ib_uverbs_comp_event_desc record = {.cq_handle = AddressOf(cq)};
  return VirtualKernel().event_post(channel->fd, &record) == 0;
}

uint32_t PurgeCompletionEvents(const ibv_comp_channel* channel, const ibv_cq* cq) {
  return VirtualKernel().event_purge(channel->fd, AddressOf(cq));
}

bool PostAsyncEvent(const ibv_context* context, ibv_event_type type, uint64_t element) {
  const ib_uverbs_async_event_desc record = {
      .element = element, .event_type = static_cast<uint32_t>(type), .reserved = 0};
  return VirtualKernel().event_post(context->async_fd, &record) == 0;
}

uint32_t PurgeAsyncEvents(const ibv_context* context, uint64_t element) {
  return VirtualKernel().event_purge(context->async_fd, element);
}

}  // namespace uroce::verbs::abi
