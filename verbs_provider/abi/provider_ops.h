#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "verbs_provider/abi/private_abi.h"

namespace uroce::verbs::abi {

// The verbs a provider can implement, one function a verb. A null member means "not supported":
// libibverbs then answers EOPNOTSUPP by itself (or does nothing, for the two event call-backs).
//
// Conventions, the same for all of them:
//  - functions that return int return 0 or a positive errno value; those that return a pointer
//    return null and set errno. post_* also set *bad_wr. poll_cq returns a count, or < 0.
//  - "core fills X" means libibverbs writes these members after the function has returned. The
//    provider fills every member that is not mentioned.
//  - an object is the provider's own type with the public struct as its *first* member.
//  - all of them can be called from several threads at once, on the same object as well.
//  - the destroy_* family must not return while the application still owes acknowledgements: see
//    events.h.
struct ProviderOps {
  // --- device and port.
  // `attr_size` is the caller's struct size and may be smaller than ours (ibv_query_device passes
  // only the leading ibv_device_attr): write no byte beyond it.
  int (*query_device_ex)(ibv_context* context, const ibv_query_device_ex_input* input,
                         ibv_device_attr_ex* attr, size_t attr_size);
  // `attr` comes zeroed and may be shorter than our ibv_port_attr (it grew from 52 to 56 bytes):
  // assign the members up to link_layer and flags, never memset the struct.
  int (*query_port)(ibv_context* context, uint8_t port_num, ibv_port_attr* attr);
  // In 100 Mb/s; release 62 and later.
  int (*query_port_speed)(ibv_context* context, uint32_t port_num, uint64_t* speed);
  int (*query_rt_values)(ibv_context* context, ibv_values_ex* values);

  // --- protection domains. Core fills pd->context for alloc_pd; for the inline verbs alloc_td and
  // alloc_parent_domain the provider fills context.
  ibv_pd* (*alloc_pd)(ibv_context* context);
  int (*dealloc_pd)(ibv_pd* pd);  // of a parent domain as well
  ibv_td* (*alloc_td)(ibv_context* context, ibv_td_init_attr* attr);
  int (*dealloc_td)(ibv_td* td);
  ibv_pd* (*alloc_parent_domain)(ibv_context* context, ibv_parent_domain_init_attr* attr);

  // --- memory regions and windows. `iova` is the address the peer uses (equal to `addr` for
  // ibv_reg_mr). Core fills mr->context, pd, addr, length of reg_mr; the returned object must be a
  // VerbsMr with type and access set. reg_dm_mr, alloc_null_mr: provider fills context, pd.
  ibv_mr* (*reg_mr)(ibv_pd* pd, void* addr, size_t length, uint64_t iova, int access);
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                           int access);
  ibv_mr* (*reg_dm_mr)(ibv_pd* pd, ibv_dm* dm, uint64_t dm_offset, size_t length,
                       unsigned int access);
  ibv_mr* (*alloc_null_mr)(ibv_pd* pd);
  // Sets the new lkey and rkey; core updates pd, addr and length of the ibv_mr afterwards.
  int (*rereg_mr)(VerbsMr* mr, int flags, ibv_pd* pd, void* addr, size_t length, int access);
  int (*dereg_mr)(VerbsMr* mr);
  int (*advise_mr)(ibv_pd* pd, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge* sg_list,
                   uint32_t num_sge);
  ibv_dm* (*alloc_dm)(ibv_context* context, ibv_alloc_dm_attr* attr);
  int (*free_dm)(ibv_dm* dm);
  ibv_mw* (*alloc_mw)(ibv_pd* pd, ibv_mw_type type);  // inline: provider fills every member
  int (*dealloc_mw)(ibv_mw* mw);
  int (*bind_mw)(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);  // inline; sets mw->rkey

  // --- objects of another context of the same device file, by their handles: provider fills every
  // member. Release 35 and later.
  ibv_pd* (*import_pd)(ibv_context* context, uint32_t handle);
  void (*unimport_pd)(ibv_pd* pd);
  ibv_mr* (*import_mr)(ibv_pd* pd, uint32_t handle);
  void (*unimport_mr)(ibv_mr* mr);
  ibv_dm* (*import_dm)(ibv_context* context, uint32_t handle);
  void (*unimport_dm)(ibv_dm* dm);

  // --- completion queues. Core fills context, channel, cq_context, the counters, mutex and cond.
  // cq->cqe (the number of entries really available) is the provider's. poll_cq and
  // req_notify_cq are called by inline functions of the application.
  ibv_cq* (*create_cq)(ibv_context* context, int cqe, ibv_comp_channel* channel, int comp_vector);
  ibv_cq_ex* (*create_cq_ex)(ibv_context* context, ibv_cq_init_attr_ex* attr);
  int (*poll_cq)(ibv_cq* cq, int num_entries, ibv_wc* wc);
  int (*req_notify_cq)(ibv_cq* cq, int solicited_only);
  int (*resize_cq)(ibv_cq* cq, int cqe);
  int (*modify_cq)(ibv_cq* cq, ibv_modify_cq_attr* attr);
  int (*destroy_cq)(ibv_cq* cq);
  // Called after libibverbs has read an event of this CQ from its completion channel.
  void (*cq_event)(ibv_cq* cq);

  // --- queue pairs. The core fills nothing: context, qp_context, pd, send_cq, recv_cq, srq,
  // qp_num, handle, state, qp_type, mutex and cond are the provider's. (Core does copy
  // attr->qp_state to qp->state after a successful modify_qp or query_qp with IBV_QP_STATE.)
  // `attr->cap` returns the granted capacities. A QP with extended work requests must be a VerbsQp.
  ibv_qp* (*create_qp)(ibv_pd* pd, ibv_qp_init_attr* attr);
  ibv_qp* (*create_qp_ex)(ibv_context* context, ibv_qp_init_attr_ex* attr);
  int (*modify_qp)(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask);
  int (*modify_qp_rate_limit)(ibv_qp* qp, ibv_qp_rate_limit_attr* attr);
  int (*query_qp)(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask, ibv_qp_init_attr* init_attr);
  int (*query_qp_data_in_order)(ibv_qp* qp, ibv_wr_opcode op, uint32_t flags);
  int (*destroy_qp)(ibv_qp* qp);
  int (*post_send)(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
  int (*post_recv)(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
  int (*set_ece)(ibv_qp* qp, ibv_ece* ece);
  int (*query_ece)(ibv_qp* qp, ibv_ece* ece);

  // --- shared receive queues. Core fills context, srq_context, pd, mutex and cond of create_srq;
  // nothing of create_srq_ex.
  ibv_srq* (*create_srq)(ibv_pd* pd, ibv_srq_init_attr* attr);
  ibv_srq* (*create_srq_ex)(ibv_context* context, ibv_srq_init_attr_ex* attr);
  int (*modify_srq)(ibv_srq* srq, ibv_srq_attr* attr, int attr_mask);
  int (*query_srq)(ibv_srq* srq, ibv_srq_attr* attr);
  int (*destroy_srq)(ibv_srq* srq);
  int (*post_srq_recv)(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
  int (*get_srq_num)(ibv_srq* srq, uint32_t* srq_num);

  // --- XRC domains: the core fills nothing.
  ibv_xrcd* (*open_xrcd)(ibv_context* context, ibv_xrcd_init_attr* attr);
  int (*close_xrcd)(ibv_xrcd* xrcd);
  ibv_qp* (*open_qp)(ibv_context* context, ibv_qp_open_attr* attr);

  // --- address handles (core fills context and pd) and multicast.
  ibv_ah* (*create_ah)(ibv_pd* pd, ibv_ah_attr* attr);
  int (*destroy_ah)(ibv_ah* ah);
  int (*attach_mcast)(ibv_qp* qp, const ibv_gid* gid, uint16_t lid);
  int (*detach_mcast)(ibv_qp* qp, const ibv_gid* gid, uint16_t lid);

  // --- flows of raw packet queue pairs; inline: provider fills every member.
  ibv_flow* (*create_flow)(ibv_qp* qp, ibv_flow_attr* attr);
  int (*destroy_flow)(ibv_flow* flow);

  // Called after libibverbs has read an event from the asynchronous event descriptor.
  void (*async_event)(ibv_context* context, ibv_async_event* event);
};

}  // namespace uroce::verbs::abi
