#include "verbs_provider/address_handle.h"

#include <cerrno>
#include <memory>

#include "verbs_provider/c_boundary.h"
#include "verbs_provider/path_check.h"
#include "verbs_provider/translate.h"

namespace uroce::verbs {

ibv_ah* CreateAh(ibv_pd* verbs, ibv_ah_attr* attr) {
  return ReturningObject<ibv_ah>([&](ibv_ah*& out) {
    ProtectionDomain& pd = ProtectionDomain::From(verbs);
    if (pd.device->lost_by_fork()) return EIO;
    if (const int error = CheckPath(*pd.device, *attr)) return error;
    PendingQuota quota(pd.device->address_handles());
    if (!quota.taken()) return ENOMEM;
    if (const int error = pd.device->Join()) return error;

    auto ah = std::make_unique<AddressHandle>();
    ah->pd = &pd;
    ah->address = ToAddressVector(*attr);
    if (const int error = pd.device->Resolve(ah->address)) return error;
    quota.Keep();
    pd.users.Add();
    out = &ah.release()->verbs;
    return 0;
  });
}

int DestroyAh(ibv_ah* verbs) {
  return ReturningErrno([&] {
    AddressHandle& ah = AddressHandle::From(verbs);
    Device& device = *ah.pd->device;
    if (device.lost_by_fork()) return EIO;
    device.address_handles().Return();
    ah.pd->users.Remove();
    delete &ah;
    return 0;
  });
}

}  // namespace uroce::verbs
