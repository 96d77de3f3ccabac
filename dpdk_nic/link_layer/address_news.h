#pragma once

#include "dpdk_nic/link_layer/rtnetlink.h"

namespace uroce::nic {

// Tells that the addresses of this host may have changed. The current ones have to be asked for.
class AddressNews {
 public:
  // Readable when there is news; -1 where the system gives us no netlink.
  int fd() const { return socket_.fd(); }
  // Whether there was news since the last call.
  bool Take() {
    bool is_new = false;
    while (socket_.Receive().has_value()) is_new = true;
    return socket_.TakeOverflow() || is_new;
  }

 private:
  RtnetlinkSocket socket_{RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
};

}  // namespace uroce::nic
