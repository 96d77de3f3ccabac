#pragma once

#include <infiniband/verbs.h>

#include <cstddef>

#include "verbs_provider/abi/core_library.h"

namespace uroce::verbs::abi {

// The memory of one open device. struct verbs_context grows at its *front* from release to release
// and ends with the ibv_context that programs point to; libibverbs records its own size in front
// of the ibv_context. So the block is allocated with room to spare, and every position in it is
// computed from what the library recorded, never from the headers we were compiled with.
//
//   block                 verbs_context as the library has it              ibv_context
//   | ContextBlock ...... | ops, ops, ops ......................... | size | ....... | spare |
//   0                     kContextOffset
struct ContextBlock {
  void* object;  // what open_context of the provider returned

  // Offset of the library's verbs_context in the block, and the room there is for it. The largest
  // one so far has 696 bytes.
  static constexpr size_t kContextOffset = 64;
  static constexpr size_t kContextRoom = 4096;

  // Null with errno set on failure, and when the ibv_context cannot be found where the library
  // must have put it (EPROTONOSUPPORT). `cmd_fd` is consumed in any case.
  static ibv_context* Allocate(const CoreLibrary& core, ibv_device* device, int cmd_fd);

  // The library's verbs_context around this ibv_context.
  static verbs_context* LibraryContext(ibv_context* context) {
    const size_t size = reinterpret_cast<const size_t*>(context)[-1];
    return reinterpret_cast<verbs_context*>(reinterpret_cast<std::byte*>(context) +
                                            sizeof(ibv_context) - size);
  }

  static ContextBlock* Of(ibv_context* context) {
    return reinterpret_cast<ContextBlock*>(reinterpret_cast<std::byte*>(LibraryContext(context)) -
                                           kContextOffset);
  }

  // Closes the context's descriptors and frees the block.
  static void Free(const CoreLibrary& core, ibv_context* context);
};

static_assert(sizeof(ContextBlock) <= ContextBlock::kContextOffset);

}  // namespace uroce::verbs::abi
