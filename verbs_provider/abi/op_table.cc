#include "verbs_provider/abi/op_table.h"

namespace uroce::verbs::abi {
namespace {

// Writes ops at their places in the installed library's table.
class Writer {
 public:
  Writer(OpTable& table, const Layout& layout) : table_(table), layout_(layout) {}

  void operator()(Op op, auto* function) const {
    const int slot = layout_.SlotOf(op);
    if (slot == kUnknownSlot) return;
    table_[static_cast<size_t>(slot)] = reinterpret_cast<const void*>(function);
  }

 private:
  OpTable& table_;
  const Layout& layout_;
};

void PutDeviceAndMemory(const ProviderOps& ops, const Writer& put) {
  put(Op::advise_mr, ops.advise_mr);
  put(Op::alloc_dm, ops.alloc_dm);
  put(Op::alloc_mw, ops.alloc_mw);
  put(Op::alloc_null_mr, ops.alloc_null_mr);
  put(Op::alloc_parent_domain, ops.alloc_parent_domain);
  put(Op::alloc_pd, ops.alloc_pd);
  put(Op::alloc_td, ops.alloc_td);
  put(Op::async_event, ops.async_event);
  put(Op::bind_mw, ops.bind_mw);
  put(Op::dealloc_mw, ops.dealloc_mw);
  put(Op::dealloc_pd, ops.dealloc_pd);
  put(Op::dealloc_td, ops.dealloc_td);
  put(Op::dereg_mr, ops.dereg_mr);
  put(Op::free_dm, ops.free_dm);
  put(Op::import_dm, ops.import_dm);
  put(Op::import_mr, ops.import_mr);
  put(Op::import_pd, ops.import_pd);
  put(Op::query_device_ex, ops.query_device_ex);
  put(Op::query_port, ops.query_port);
  put(Op::query_port_speed, ops.query_port_speed);
  put(Op::query_rt_values, ops.query_rt_values);
  put(Op::reg_dm_mr, ops.reg_dm_mr);
  put(Op::reg_dmabuf_mr, ops.reg_dmabuf_mr);
  put(Op::reg_mr, ops.reg_mr);
  put(Op::rereg_mr, ops.rereg_mr);
  put(Op::unimport_dm, ops.unimport_dm);
  put(Op::unimport_mr, ops.unimport_mr);
  put(Op::unimport_pd, ops.unimport_pd);
}

void PutQueuesAndAddresses(const ProviderOps& ops, const Writer& put) {
  put(Op::attach_mcast, ops.attach_mcast);
  put(Op::close_xrcd, ops.close_xrcd);
  put(Op::cq_event, ops.cq_event);
  put(Op::create_ah, ops.create_ah);
  put(Op::create_cq, ops.create_cq);
  put(Op::create_cq_ex, ops.create_cq_ex);
  put(Op::create_flow, ops.create_flow);
  put(Op::create_qp, ops.create_qp);
  put(Op::create_qp_ex, ops.create_qp_ex);
  put(Op::create_srq, ops.create_srq);
  put(Op::create_srq_ex, ops.create_srq_ex);
  put(Op::destroy_ah, ops.destroy_ah);
  put(Op::destroy_cq, ops.destroy_cq);
  put(Op::destroy_flow, ops.destroy_flow);
  put(Op::destroy_qp, ops.destroy_qp);
  put(Op::destroy_srq, ops.destroy_srq);
  put(Op::detach_mcast, ops.detach_mcast);
  put(Op::get_srq_num, ops.get_srq_num);
  put(Op::modify_cq, ops.modify_cq);
  put(Op::modify_qp, ops.modify_qp);
  put(Op::modify_qp_rate_limit, ops.modify_qp_rate_limit);
  put(Op::modify_srq, ops.modify_srq);
  put(Op::open_qp, ops.open_qp);
  put(Op::open_xrcd, ops.open_xrcd);
  put(Op::poll_cq, ops.poll_cq);
  put(Op::post_recv, ops.post_recv);
  put(Op::post_send, ops.post_send);
  put(Op::post_srq_recv, ops.post_srq_recv);
  put(Op::query_ece, ops.query_ece);
  put(Op::query_qp, ops.query_qp);
  put(Op::query_qp_data_in_order, ops.query_qp_data_in_order);
  put(Op::query_srq, ops.query_srq);
  put(Op::req_notify_cq, ops.req_notify_cq);
  put(Op::resize_cq, ops.resize_cq);
  put(Op::set_ece, ops.set_ece);
}

}  // namespace

OpTable MakeOpTable(const ProviderOps& ops, void (*free_context)(ibv_context*),
                    const Layout& layout) {
  OpTable table = {};
  const Writer put(table, layout);
  PutDeviceAndMemory(ops, put);
  PutQueuesAndAddresses(ops, put);
  put(Op::free_context, free_context);
  return table;
}

}  // namespace uroce::verbs::abi
