#include "verbs_provider/abi/context_block.h"

#include <cerrno>
#include <cstdint>
#include <cstdlib>

namespace uroce::verbs::abi {
namespace {

// RDMA_DRIVER_UNKNOWN: the number is the kernel's to give, and any other would make libibverbs
// believe that it knows the driver.
constexpr uint32_t kDriverUnknown = 0;

// libibverbs has marked its ibv_context in three ways: the device pointer, the marker of an
// extended context, and in front of it the size of a verbs_context that ends with the ibv_context.
ibv_context* FindContext(std::byte* start, const ibv_device* device) {
  for (size_t offset = sizeof(size_t); offset + sizeof(ibv_context) <= ContextBlock::kContextRoom;
       offset += sizeof(void*)) {
    auto* candidate = reinterpret_cast<ibv_context*>(start + offset);
    if (candidate->device == device && candidate->abi_compat == __VERBS_ABI_IS_EXTENDED &&
        reinterpret_cast<const size_t*>(candidate)[-1] == offset + sizeof(ibv_context)) {
      return candidate;
    }
  }
  return nullptr;
}

}  // namespace

ibv_context* ContextBlock::Allocate(const CoreLibrary& core, ibv_device* device, int cmd_fd) {
  auto* block = static_cast<std::byte*>(core.init_and_alloc_context(
      device, cmd_fd, kContextOffset + kContextRoom,
      reinterpret_cast<verbs_context*>(static_cast<uintptr_t>(kContextOffset)), kDriverUnknown));
  if (block == nullptr) return nullptr;
  ibv_context* context = FindContext(block + kContextOffset, device);
  // Without its ibv_context the block cannot be freed; the leak is one page of a process that will
  // not get the device anyway.
  if (context == nullptr) errno = EPROTONOSUPPORT;
  return context;
}

void ContextBlock::Free(const CoreLibrary& core, ibv_context* context) {
  ContextBlock* block = Of(context);
  core.uninit_context(LibraryContext(context));
  std::free(block);  // the library calloc()ed it
}

}  // namespace uroce::verbs::abi
