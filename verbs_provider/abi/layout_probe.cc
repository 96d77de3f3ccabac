#include "verbs_provider/abi/layout_probe.h"

#include <malloc.h>
#include <sys/eventfd.h>

#include <array>
#include <cstring>
#include <utility>

#include "verbs_provider/abi/context_block.h"

namespace uroce::verbs::abi {
namespace {

// Which trampoline ran last in this thread.
thread_local int last_hit = kUnknownSlot;

// Stands in for an op of any signature: returns 0 or null, touches no argument.
template <int kSlot>
long Trampoline() {
  last_hit = kSlot;
  return 0;
}

template <int... kSlots>
std::array<const void*, sizeof...(kSlots)> MakeTrampolines(
    std::integer_sequence<int, kSlots...> /*slots*/) {
  return {reinterpret_cast<const void*>(&Trampoline<kSlots>)...};
}

const std::array<const void*, kMaxSlots>& Trampolines() {
  static const auto trampolines = MakeTrampolines(std::make_integer_sequence<int, kMaxSlots>());
  return trampolines;
}

// Which trampoline a function pointer is; kUnknownSlot for any other function.
template <typename Function>
int SlotOfTrampoline(Function function) {
  const auto address = reinterpret_cast<const void*>(function);
  for (int slot = 0; slot < kMaxSlots; ++slot) {
    if (Trampolines()[static_cast<size_t>(slot)] == address) return slot;
  }
  return kUnknownSlot;
}

// ops->alloc_context of the probe device gets no argument through which it could find this.
const CoreLibrary* probe_core = nullptr;

verbs_context* AllocateProbeContext(ibv_device* device, int cmd_fd, void* /*private_data*/) {
  ibv_context* context = ContextBlock::Allocate(*probe_core, device, cmd_fd);
  if (context == nullptr) return nullptr;
  verbs_context* library_context = ContextBlock::LibraryContext(context);
  probe_core->set_ops(library_context, Trampolines().data());
  // With a descriptor of ours in place libibverbs does not ask the kernel for one.
  context->async_fd = eventfd(0, EFD_CLOEXEC);
  return library_context;
}

// libibverbs keeps its op table inside `priv`, a heap block whose layout is unknown but whose size
// malloc knows. The table is a run of our trampolines, 0, 1, 2 ...
int CountSlots(const void* priv) {
  const auto* words = static_cast<const void* const*>(priv);
  const size_t word_count = malloc_usable_size(const_cast<void*>(priv)) / sizeof(void*);
  for (size_t start = 0; start < word_count; ++start) {
    int count = 0;
    while (start + count < word_count && count < kMaxSlots &&
           words[start + count] == Trampolines()[count]) {
      ++count;
    }
    if (count > 0) return count;
  }
  return 0;
}

void Record(Layout& layout, Op op, int slot) { layout.slot[static_cast<size_t>(op)] = slot; }

// Ops whose pointers libibverbs copies into structs of public layout.
void ObservePublicSlots(const ibv_context& context, const verbs_context& extended, Layout& layout) {
#define UROCE_PUBLIC(op, member) Record(layout, Op::op, SlotOfTrampoline(member));
  const ibv_context_ops& ops = context.ops;
  UROCE_PUBLIC(alloc_mw, ops.alloc_mw)
  UROCE_PUBLIC(alloc_pd, ops._compat_alloc_pd)
  UROCE_PUBLIC(async_event, ops._compat_async_event)
  UROCE_PUBLIC(attach_mcast, ops._compat_attach_mcast)
  UROCE_PUBLIC(bind_mw, ops.bind_mw)
  UROCE_PUBLIC(cq_event, ops._compat_cq_event)
  UROCE_PUBLIC(create_ah, ops._compat_create_ah)
  UROCE_PUBLIC(create_cq, ops._compat_create_cq)
  UROCE_PUBLIC(create_qp, ops._compat_create_qp)
  UROCE_PUBLIC(create_srq, ops._compat_create_srq)
  UROCE_PUBLIC(dealloc_mw, ops.dealloc_mw)
  UROCE_PUBLIC(dealloc_pd, ops._compat_dealloc_pd)
  UROCE_PUBLIC(dereg_mr, ops._compat_dereg_mr)
  UROCE_PUBLIC(destroy_ah, ops._compat_destroy_ah)
  UROCE_PUBLIC(destroy_cq, ops._compat_destroy_cq)
  UROCE_PUBLIC(destroy_qp, ops._compat_destroy_qp)
  UROCE_PUBLIC(destroy_srq, ops._compat_destroy_srq)
  UROCE_PUBLIC(detach_mcast, ops._compat_detach_mcast)
  UROCE_PUBLIC(modify_qp, ops._compat_modify_qp)
  UROCE_PUBLIC(modify_srq, ops._compat_modify_srq)
  UROCE_PUBLIC(poll_cq, ops.poll_cq)
  UROCE_PUBLIC(post_recv, ops.post_recv)
  UROCE_PUBLIC(post_send, ops.post_send)
  UROCE_PUBLIC(post_srq_recv, ops.post_srq_recv)
  UROCE_PUBLIC(query_qp, ops._compat_query_qp)
  UROCE_PUBLIC(query_srq, ops._compat_query_srq)
  UROCE_PUBLIC(reg_mr, ops._compat_reg_mr)
  UROCE_PUBLIC(req_notify_cq, ops.req_notify_cq)
  UROCE_PUBLIC(rereg_mr, ops._compat_rereg_mr)
  UROCE_PUBLIC(resize_cq, ops._compat_resize_cq)
  UROCE_PUBLIC(advise_mr, extended.advise_mr)
  UROCE_PUBLIC(alloc_dm, extended.alloc_dm)
  UROCE_PUBLIC(alloc_null_mr, extended.alloc_null_mr)
  UROCE_PUBLIC(alloc_parent_domain, extended.alloc_parent_domain)
  UROCE_PUBLIC(alloc_td, extended.alloc_td)
  UROCE_PUBLIC(close_xrcd, extended.close_xrcd)
  UROCE_PUBLIC(create_qp_ex, extended.create_qp_ex)
  UROCE_PUBLIC(create_srq_ex, extended.create_srq_ex)
  UROCE_PUBLIC(dealloc_td, extended.dealloc_td)
  UROCE_PUBLIC(free_dm, extended.free_dm)
  UROCE_PUBLIC(get_srq_num, extended.get_srq_num)
  UROCE_PUBLIC(modify_cq, extended.modify_cq)
  UROCE_PUBLIC(open_qp, extended.open_qp)
  UROCE_PUBLIC(open_xrcd, extended.open_xrcd)
  UROCE_PUBLIC(query_device_ex, extended.query_device_ex)
  UROCE_PUBLIC(query_rt_values, extended.query_rt_values)
  UROCE_PUBLIC(reg_dm_mr, extended.reg_dm_mr)
#undef UROCE_PUBLIC
}

// Ops without a public slot: call the public verb and see which trampoline it reaches.
template <typename Call>
void ObserveByCalling(Layout& layout, Op op, Call call) {
  last_hit = kUnknownSlot;
  call();
  Record(layout, op, last_hit);
}

void ObserveHiddenSlots(const CoreLibrary& core, ibv_context* context, verbs_context* extended,
                        Layout& layout) {
  // The library may know a longer ibv_port_attr than we do.
  alignas(ibv_port_attr) std::byte port_attr[1024] = {};
  ObserveByCalling(layout, Op::query_port, [&] { core.query_port(context, 1, port_attr); });
  ibv_cq_init_attr_ex cq_attr = {};
  cq_attr.cqe = 1;
  ObserveByCalling(layout, Op::create_cq_ex, [&] { extended->create_cq_ex(context, &cq_attr); });

  VerbsQp qp = {};
  qp.qp.context = context;
  ibv_ece ece = {};
  ece.vendor_id = 1;
  ibv_pd pd = {};
  pd.context = context;
  if (core.set_ece != nullptr) {
    ObserveByCalling(layout, Op::set_ece, [&] { core.set_ece(&qp.qp, &ece); });
  }
  if (core.query_ece != nullptr) {
    ObserveByCalling(layout, Op::query_ece, [&] { core.query_ece(&qp.qp, &ece); });
  }
  if (core.reg_dmabuf_mr != nullptr) {
    ObserveByCalling(layout, Op::reg_dmabuf_mr, [&] { core.reg_dmabuf_mr(&pd, 0, 1, 0, -1, 0); });
  }
  if (core.query_qp_data_in_order != nullptr) {
    ObserveByCalling(layout, Op::query_qp_data_in_order,
                     [&] { core.query_qp_data_in_order(&qp.qp, IBV_WR_SEND, 0); });
  }
  uint64_t speed = 0;
  if (core.query_port_speed != nullptr) {
    ObserveByCalling(layout, Op::query_port_speed,
                     [&] { core.query_port_speed(context, 1, &speed); });
  }
}

// Tries the flag at every place until ibv_qp_to_qp_ex() sees it.
size_t FindQpExOffset(const CoreLibrary& core) {
  for (size_t offset = sizeof(ibv_qp); offset + sizeof(uint64_t) <= sizeof(VerbsQp);
       offset += sizeof(uint32_t)) {
    VerbsQp qp = {};
    std::memcpy(qp.reserve + offset, &kVerbsQpEx, sizeof(kVerbsQpEx));
    if (core.qp_to_qp_ex(&qp.qp) != nullptr) return offset;
  }
  return 0;
}

}  // namespace

std::string ObserveLayout(const CoreLibrary& core, SysfsDevice* sysfs, Layout& layout) {
  DeviceOps ops = {};
  ops.name = "uroce-probe";
  ops.alloc_context = AllocateProbeContext;
  VerbsDevice device = {};
  device.ops = &ops;
  device.refcount = 1;
  device.sysfs = sysfs;

  probe_core = &core;
  ibv_context* context = core.open_device(&device.device);
  if (context == nullptr)
    return std::string("the probe device cannot be opened: ") + strerror(errno);

  verbs_context* extended = verbs_get_ctx(context);
  layout = Layout();
  layout.slot_count = CountSlots(extended->priv);
  ObservePublicSlots(*context, *extended, layout);
  ObserveHiddenSlots(core, context, extended, layout);
  // The trampoline frees nothing, so the context is still whole afterwards.
  ObserveByCalling(layout, Op::free_context, [&] { core.close_device(context); });
  ContextBlock::Free(core, context);
  layout.qp_ex_offset = FindQpExOffset(core);
  return "";
}

}  // namespace uroce::verbs::abi
