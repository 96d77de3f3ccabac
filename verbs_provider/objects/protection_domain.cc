#include "verbs_provider/objects/protection_domain.h"

#include <cerrno>
#include <memory>

#include "verbs_provider/abi/newer_verbs.h"
#include "verbs_provider/base/c_boundary.h"
#include "verbs_provider/device/context.h"
#include "verbs_provider/objects/destroy.h"

namespace uroce::verbs {
namespace {

bool IsImported(ibv_pd* verbs) {
  return reinterpret_cast<ProtectionDomain*>(verbs)->imported_from != nullptr;
}

}  // namespace

ibv_pd* AllocPd(ibv_context* context) {
  return ReturningObject<ibv_pd>([&](ibv_pd*& out) {
    Device& device = Context::From(context).device();
    if (device.lost_by_fork()) return EIO;
    auto pd = std::make_unique<ProtectionDomain>();
    PendingHandle handle(Context::From(context).objects(), *pd);
    const auto id = device.TakePdId();
    if (!id) return ENOMEM;
    pd->device = &device;
    pd->id = *id;
    pd->verbs.handle = handle.Keep();
    out = &pd.release()->verbs;
    return 0;
  });
}

ibv_pd* ImportPd(ibv_context* context, uint32_t handle) {
  return ReturningObject<ibv_pd>([&](ibv_pd*& out) {
    if (Context::From(context).device().lost_by_fork()) return EIO;
    auto* const found = Context::From(context).objects().Find<ProtectionDomain>(handle);
    if (found == nullptr) return ENOENT;
    auto pd = std::make_unique<ProtectionDomain>();
    pd->imported_from = found;
    pd->verbs.context = context;
    pd->verbs.handle = handle;
    found->users.Add();
    out = &pd.release()->verbs;
    return 0;
  });
}

void UnimportPd(ibv_pd* verbs) {
  auto* const pd = reinterpret_cast<ProtectionDomain*>(verbs);
  pd->imported_from->users.Remove();
  delete pd;
}

int DeallocPd(ibv_pd* verbs) {
  const int error = ReturningErrno([&] { return CheckHandle<ProtectionDomain>(verbs); });
  if (error != 0) return error;
  if (IsImported(verbs)) {
    UnimportPd(verbs);
    return 0;
  }
  return DestroyUnused<ProtectionDomain>(verbs, [](ProtectionDomain& pd) {
    if (pd.original == nullptr) {
      pd.device->ReturnPdId(pd.id);
    } else {
      pd.original->users.Remove();
      if (pd.thread != nullptr) pd.thread->users.Remove();
    }
  });
}

ibv_pd* AllocParentDomain(ibv_context* context, ibv_parent_domain_init_attr* attr) {
  return ReturningObject<ibv_pd>([&](ibv_pd*& out) {
    Device& device = Context::From(context).device();
    if (device.lost_by_fork()) return EIO;
    constexpr uint32_t kKnown = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
                                IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT |
                                abi::kParentDomainAllowUnprotected;
    if ((attr->comp_mask & ~kKnown) != 0) return EINVAL;
    if (attr->pd == nullptr || attr->pd->context != context) return EINVAL;
    if (const int error = CheckHandle<ProtectionDomain>(attr->pd)) return error;
    if (attr->td != nullptr && attr->td->context != context) return EINVAL;

    auto pd = std::make_unique<ProtectionDomain>();
    pd->device = &device;
    pd->original = &ProtectionDomain::From(attr->pd);
    pd->thread = attr->td == nullptr ? nullptr : &ThreadDomain::From(attr->td);
    pd->id = pd->original->id;
    pd->verbs.context = context;
    pd->verbs.handle = Context::From(context).objects().Add(*pd);
    pd->original->users.Add();
    if (pd->thread != nullptr) pd->thread->users.Add();
    out = &pd.release()->verbs;
    return 0;
  });
}

ibv_td* AllocTd(ibv_context* context, ibv_td_init_attr* attr) {
  return ReturningObject<ibv_td>([&](ibv_td*& out) {
    Device& device = Context::From(context).device();
    if (device.lost_by_fork()) return EIO;
    if (attr->comp_mask != 0) return EINVAL;
    auto td = std::make_unique<ThreadDomain>();
    td->device = &device;
    td->verbs.context = context;
    out = &td.release()->verbs;
    return 0;
  });
}

int DeallocTd(ibv_td* verbs) {
  return ReturningErrno([&] {
    ThreadDomain& td = ThreadDomain::From(verbs);
    if (td.device->lost_by_fork()) return EIO;
    if (td.users.in_use()) return EBUSY;
    delete &td;
    return 0;
  });
}

}  // namespace uroce::verbs
