#include "verbs_provider/objects/address_handle.h"

#include <cerrno>
#include <memory>

#include "transport/endpoint.h"
#include "verbs_provider/base/c_boundary.h"
#include "verbs_provider/base/translate.h"
#include "verbs_provider/device/context.h"
#include "verbs_provider/objects/path_check.h"

namespace uroce::verbs {
namespace {

// The handle follows its neighbour while it is resolved, so that it misses no change: an address
// that UpdateNeighbor has set meanwhile is newer than the answer.
int Resolve(Device& device, AddressHandle& ah) {
  transport::AddressVector address = ah.address;
  ObjectList<AddressHandle>& followers = device.followers().address_handles;
  {
    const nic::Engine::Verb verb(device.engine());
    followers.Add(ah);
  }
  const int error = ReturningErrno([&] { return device.Resolve(address); });
  const nic::Engine::Verb verb(device.engine());
  if (error != 0) {
    followers.Remove(ah);
  } else if (ah.address.destination_mac == transport::MacAddress{}) {
    ah.address.destination_mac = address.destination_mac;
  }
  return error;
}

}  // namespace

ibv_ah* CreateAh(ibv_pd* verbs, ibv_ah_attr* attr) {
  return ReturningObject<ibv_ah>([&](ibv_ah*& out) {
    if (const int error = CheckHandle<ProtectionDomain>(verbs)) return error;
    ProtectionDomain& pd = ProtectionDomain::From(verbs);
    if (const int error = CheckPath(*pd.device, *attr)) return error;
    PendingQuota quota(pd.device->address_handles());
    if (!quota.taken()) return ENOMEM;

    auto ah = std::make_unique<AddressHandle>();
    PendingHandle handle(Context::From(verbs->context).objects(), *ah);
    ah->verbs.context = verbs->context;
    ah->pd = &pd;
    ah->address = AddressOf(*pd.device, *attr);
    // NICs send the hop limit of a handle; without one the route's, as ib_core of Linux does.
    const bool has_hop_limit =
        ah->address.hop_limit != 0 || ah->address.destination_gid.IsMulticast();
    if (!has_hop_limit) ah->address.hop_limit = pd.device->HopLimitTo(ah->address);
    if (const int error = Resolve(*pd.device, *ah)) return error;
    ah->verbs.handle = handle.Keep();
    quota.Keep();
    pd.users.Add();
    out = &ah.release()->verbs;
    return 0;
  });
}

int DestroyAh(ibv_ah* verbs) {
  return ReturningErrno([&] {
    if (const int error = CheckHandle<AddressHandle>(verbs)) return error;
    Context::From(verbs->context).objects().Remove(verbs->handle);
    AddressHandle& ah = AddressHandle::From(verbs);
    Device& device = *ah.pd->device;
    {
      const nic::Engine::Verb verb(device.engine());
      device.followers().address_handles.Remove(ah);
    }
    device.address_handles().Return();
    ah.pd->users.Remove();
    delete &ah;
    return 0;
  });
}

void UpdateNeighbor(AddressHandle& ah, const transport::Gid& gid,
                    const transport::MacAddress& mac) {
  if (ah.address.destination_gid == gid) ah.address.destination_mac = mac;
}

void AbandonAddressHandles(Device& device, const ibv_context* context) {
  const nic::Engine::Verb verb(device.engine());
  ObjectList<AddressHandle>& followers = device.followers().address_handles;
  followers.ForEach([&](AddressHandle& ah) {
    if (ah.verbs.context != context) return;
    followers.Remove(ah);
    device.address_handles().Return();
  });
}

}  // namespace uroce::verbs
