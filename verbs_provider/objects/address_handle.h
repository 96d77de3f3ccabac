#pragma once

#include <infiniband/verbs.h>

#include "transport/address.h"
#include "transport/ids.h"
#include "verbs_provider/base/object_list.h"
#include "verbs_provider/objects/protection_domain.h"

namespace uroce::verbs {

// What ibv_create_ah returns: a checked address with its Ethernet address resolved, which follows
// the neighbour.
struct AddressHandle {
  ibv_ah verbs = {};  // first: libibverbs knows the object by it
  ProtectionDomain* pd = nullptr;
  transport::AddressVector address;  // protected by the engine's lock
  ObjectLink<AddressHandle> link;    // in DeviceFollowers

  static AddressHandle& From(ibv_ah* ah) { return *reinterpret_cast<AddressHandle*>(ah); }
};

// Errors as those of the address vector in ModifyQp.
ibv_ah* CreateAh(ibv_pd* pd, ibv_ah_attr* attr);
int DestroyAh(ibv_ah* ah);

// The neighbour `gid` has the Ethernet address `mac` now. Under the engine's lock.
void UpdateNeighbor(AddressHandle& ah, const transport::Gid& gid, const transport::MacAddress& mac);
// No handle of `context` follows its neighbour any more: the context is being closed.
void AbandonAddressHandles(Device& device, const ibv_context* context);

}  // namespace uroce::verbs
