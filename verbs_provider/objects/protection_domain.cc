#include "verbs_provider/objects/protection_domain.h"

#include <cerrno>
#include <memory>

#include "verbs_provider/base/c_boundary.h"
#include "verbs_provider/device/context.h"

namespace uroce::verbs {

ibv_pd* AllocPd(ibv_context* context) {
  return ReturningObject<ibv_pd>([&](ibv_pd*& out) {
    Device& device = Context::From(context).device();
    if (device.lost_by_fork()) return EIO;
    auto pd = std::make_unique<ProtectionDomain>();
    const auto id = device.TakePdId();
    if (!id) return ENOMEM;
    pd->device = &device;
    pd->id = *id;
    out = &pd.release()->verbs;
    return 0;
  });
}

int DeallocPd(ibv_pd* verbs) {
  return ReturningErrno([&] {
    ProtectionDomain& pd = ProtectionDomain::From(verbs);
    if (pd.device->lost_by_fork()) return EIO;
    if (pd.users.in_use()) return EBUSY;
    pd.device->ReturnPdId(pd.id);
    delete &pd;
    return 0;
  });
}

}  // namespace uroce::verbs
