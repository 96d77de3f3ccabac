#pragma once

#include "dpdk_nic/link_layer/rtnetlink.h"

namespace uroce::nic {

// Tells that the addresses of this host may have changed. What they are now is to be asked anew.
class AddressNews {
 public:
  // Readable when there is news; -1 where the system tells us nothing.
  int fd() const { return socket_.fd(); }
  // Whether there was any since it was last asked.
  bool Take() {
    bool is_new = false;
    while (socket_.Receive().has_value()) is_new = true;
    return socket_.TakeOverflow() || is_new;
  }

 private:
  RtnetlinkSocket socket_{RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
};

}  // namespace uroce::nic
