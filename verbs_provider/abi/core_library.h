#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "verbs_provider/abi/private_abi.h"

namespace uroce::verbs::abi {

// The entry points of the genuine libibverbs that a provider needs. Looked up at run time: the
// private ones carry a version that differs between releases, so linking to them would bind the
// provider to one release.
struct CoreLibrary {
  int private_abi = 0;  // NN of IBVERBS_PRIVATE_NN

  void (*register_driver)(const DeviceOps* ops);
  // Allocates `bytes`, zeroed, with a verbs_context at `context_offset`. Owns `cmd_fd`: closes it
  // when it fails.
  void* (*init_and_alloc_context)(ibv_device* device, int cmd_fd, size_t bytes,
                                  verbs_context* context_offset, uint32_t driver_id);
  // Closes the context's descriptors and releases its device; does not free the block.
  void (*uninit_context)(verbs_context* context);
  // `ops` is the library's op table; null entries leave the present op.
  void (*set_ops)(verbs_context* context, const void* const* ops);

  ibv_context* (*open_device)(ibv_device* device);
  int (*close_device)(ibv_context* context);
  int (*query_port)(ibv_context* context, uint8_t port_num, void* attr);
  ibv_qp_ex* (*qp_to_qp_ex)(ibv_qp* qp);

  // Newer public verbs; null where the installed release has none.
  int (*set_ece)(ibv_qp* qp, ibv_ece* ece);
  int (*query_ece)(ibv_qp* qp, ibv_ece* ece);
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                           int access);
  int (*query_qp_data_in_order)(ibv_qp* qp, ibv_wr_opcode op, uint32_t flags);
  int (*query_port_speed)(ibv_context* context, uint32_t port_num, uint64_t* speed);
};

// Finds the libibverbs that is loaded in this process; it never loads one. Returns an empty string,
// or a sentence that says what is missing.
[[nodiscard]] std::string FindCoreLibrary(CoreLibrary& core);

}  // namespace uroce::verbs::abi
