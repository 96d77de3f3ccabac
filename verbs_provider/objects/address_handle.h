#pragma once

#include <infiniband/verbs.h>

#include "transport/address.h"
#include "transport/ids.h"
#include "verbs_provider/base/object_list.h"
#include "verbs_provider/objects/protection_domain.h"

namespace uroce::verbs {

// The object behind ibv_create_ah: a checked address with its Ethernet address resolved, which
// follows changes of the neighbour.
struct AddressHandle {
  ibv_ah verbs = {};  // first: libibverbs knows the object by it
  ProtectionDomain* pd = nullptr;
  transport::AddressVector address;  // protected by the engine's lock
  ObjectLink<AddressHandle> link;    // in DeviceFollowers

  static AddressHandle& From(ibv_ah* ah) { return *reinterpret_cast<AddressHandle*>(ah); }
};

// Fails as ModifyQp does for an address vector.
ibv_ah* CreateAh(ibv_pd* pd, ibv_ah_attr* attr);
int DestroyAh(ibv_ah* ah);

// Sets the Ethernet address of `ah` to `mac` if it leads to `gid`. Under the engine's lock.
void UpdateNeighbor(AddressHandle& ah, const transport::Gid& gid, const transport::MacAddress& mac);
// Ends the updates of all handles of `context`, which is being closed.
void AbandonAddressHandles(Device& device, const ibv_context* context);

}  // namespace uroce::verbs
