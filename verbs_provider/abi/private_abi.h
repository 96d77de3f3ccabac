#pragma once

#include <infiniband/verbs.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

// Our own declarations of the part of libibverbs' private provider ABI that a provider outside the
// rdma-core tree needs: no distribution ships infiniband/driver.h. Facts of layout only, compared
// with every upstream release; the releases a declaration holds for are noted at each.
namespace uroce::verbs::abi {

struct ListNode {
  ListNode* next;
  ListNode* prev;
};

// struct verbs_sysfs_dev: a device that libibverbs has discovered. Only this head is the same in
// all of v31 and later; the tail differs and is not ours to read.
struct SysfsDevice {
  ListNode entry;
  void* provider_data;
  const void* match;
  unsigned int flags;
  char sysfs_name[IBV_SYSFS_NAME_MAX];  // "uverbs0"
  dev_t sysfs_cdev;
  char ibdev_name[IBV_SYSFS_NAME_MAX];  // "mlx5_0"
  char ibdev_path[IBV_SYSFS_PATH_MAX];
};

struct VerbsDevice;

// struct verbs_device_ops, v31 and later.
struct DeviceOps {
  const char* name;
  uint32_t match_min_abi_version;
  uint32_t match_max_abi_version;
  const void* match_table;
  const DeviceOps** static_providers;
  bool (*match_device)(SysfsDevice* device);
  // Both own `cmd_fd`: they close it when they fail.
  verbs_context* (*alloc_context)(ibv_device* device, int cmd_fd, void* private_data);
  verbs_context* (*import_context)(ibv_device* device, int cmd_fd);
  VerbsDevice* (*alloc_device)(SysfsDevice* device);
  void (*uninit_device)(VerbsDevice* device);
};

// struct verbs_device, v28 and later. Allocated by the provider, filled by libibverbs.
struct VerbsDevice {
  ibv_device device;
  const DeviceOps* ops;
  int refcount;  // atomic_int in libibverbs
  ListNode entry;
  SysfsDevice* sysfs;
  uint64_t core_support;   // kCoreSupport*
  uint64_t head_room[16];  // a later release may append members
};

// The kernel ignores access flags in IBV_ACCESS_OPTIONAL_RANGE that it does not know. Without this
// bit libibverbs masks them off before it calls reg_mr.
inline constexpr uint64_t kCoreSupportOptionalMrAccess = 1u << 0;

// struct verbs_mr, v32 and later. libibverbs reads `type` and `access` in ibv_dereg_mr and
// ibv_rereg_mr, so every ibv_mr that a provider returns must be one of these.
enum class MrType : int { kMr = 0, kNullMr = 1, kImportedMr = 2, kDmabufMr = 3 };

struct VerbsMr {
  ibv_mr mr;
  MrType type;
  int access;  // ibv_access_flags, as registered
};

// struct verbs_qp. ibv_qp_ex, which grows at its end, is followed by a mask that says whether the
// QP has extended work requests (ibv_qp_to_qp_ex). The mask's offset differs between releases and
// is calibrated: set the mask with MarkExtendedQp() (provider_registration.h), and write no member
// that lies behind ExtendedQpBytes(). `reserve` leaves room for the mask.
inline constexpr size_t kVerbsQpBytes = 1024;
inline constexpr uint32_t kVerbsQpEx = 1u << 1;

union VerbsQp {
  ibv_qp qp;
  ibv_qp_ex ex;
  std::byte reserve[kVerbsQpBytes];
};

// The members of struct verbs_context_ops in ABI order, which is alphabetical, each with the
// rdma-core release that introduced it (33: that one or an earlier release).
// clang-format off
#define UROCE_VERBS_CONTEXT_OPS(X)                                                              \
  X(advise_mr, 33) X(alloc_buf, 64) X(alloc_dm, 33) X(alloc_dmah, 59) X(alloc_mw, 33)           \
  X(alloc_null_mr, 33) X(alloc_parent_domain, 33) X(alloc_pd, 33) X(alloc_td, 33)               \
  X(async_event, 33) X(attach_counters_point_flow, 33) X(attach_mcast, 33) X(bind_mw, 33)       \
  X(close_xrcd, 33) X(cq_event, 33) X(create_ah, 33) X(create_comp_cntr, 65)                    \
  X(create_counters, 33) X(create_cq, 33) X(create_cq_ex, 33) X(create_flow, 33)                \
  X(create_flow_action_esp, 33) X(create_qp, 33) X(create_qp_ex, 33)                            \
  X(create_rwq_ind_table, 33) X(create_srq, 33) X(create_srq_ex, 33) X(create_wq, 33)           \
  X(dealloc_dmah, 59) X(dealloc_mw, 33) X(dealloc_pd, 33) X(dealloc_td, 33) X(dereg_mr, 33)     \
  X(destroy_ah, 33) X(destroy_comp_cntr, 65) X(destroy_counters, 33) X(destroy_cq, 33)          \
  X(destroy_flow, 33) X(destroy_flow_action, 33) X(destroy_qp, 33) X(destroy_rwq_ind_table, 33) \
  X(destroy_srq, 33) X(destroy_wq, 33) X(detach_mcast, 33) X(dm_export_dmabuf_fd, 62)           \
  X(free_buf, 64) X(free_context, 33) X(free_dm, 33) X(get_srq_num, 33) X(import_dm, 35)        \
  X(import_mr, 33) X(import_pd, 33) X(inc_comp_cntr, 65) X(inc_err_comp_cntr, 65)               \
  X(modify_cq, 33) X(modify_flow_action_esp, 33) X(modify_qp, 33) X(modify_qp_rate_limit, 33)   \
  X(modify_srq, 33) X(modify_wq, 33) X(open_qp, 33) X(open_xrcd, 33) X(poll_cq, 33)             \
  X(post_recv, 33) X(post_send, 33) X(post_srq_ops, 33) X(post_srq_recv, 33)                    \
  X(qp_attach_comp_cntr, 65) X(query_comp_cntr_caps, 65) X(query_device_ex, 33)                 \
  X(query_ece, 33) X(query_port, 33) X(query_port_speed, 62) X(query_qp, 33)                    \
  X(query_qp_data_in_order, 36) X(query_rt_values, 33) X(query_srq, 33) X(read_comp_cntr, 65)   \
  X(read_counters, 33) X(read_err_comp_cntr, 65) X(reg_dm_mr, 33) X(reg_dmabuf_mr, 34)          \
  X(reg_mr, 33) X(reg_mr_ex, 59) X(req_notify_cq, 33) X(rereg_mr, 33) X(resize_cq, 33)          \
  X(set_comp_cntr, 65) X(set_ece, 33) X(set_err_comp_cntr, 65) X(unimport_dm, 35)               \
  X(unimport_mr, 33) X(unimport_pd, 33)
// clang-format on

// Names an op independently of its place in the installed library.
enum class Op : int {
#define UROCE_X(name, since) name,
  UROCE_VERBS_CONTEXT_OPS(UROCE_X)
#undef UROCE_X
};

inline constexpr int kOpCount = 0
#define UROCE_X(name, since) +1
    UROCE_VERBS_CONTEXT_OPS(UROCE_X)
#undef UROCE_X
    ;

}  // namespace uroce::verbs::abi
