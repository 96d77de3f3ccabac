#pragma once

#include <infiniband/verbs.h>

#include "transport/address.h"
#include "verbs_provider/protection_domain.h"

namespace uroce::verbs {

// What ibv_create_ah returns: a checked address with its Ethernet address resolved.
struct AddressHandle {
  ibv_ah verbs;  // first: libibverbs knows the object by it
  ProtectionDomain* pd;
  transport::AddressVector address;

  static AddressHandle& From(ibv_ah* ah) { return *reinterpret_cast<AddressHandle*>(ah); }
};

// Errors as those of the address vector in ModifyQp.
ibv_ah* CreateAh(ibv_pd* pd, ibv_ah_attr* attr);
int DestroyAh(ibv_ah* ah);

}  // namespace uroce::verbs
