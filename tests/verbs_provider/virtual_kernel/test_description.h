#pragma once

#include <cstdio>
#include <cstring>

#include "verbs_provider/virtual_kernel/device/device_description.h"

namespace uroce::verbs {

// Fills a description: an active port with GIDs at 0 and 1 of a table of 4, one P_Key.
inline void DescribeTestDevice(uroce_device_description& description) {
  constexpr uint8_t kGids[2][16] = {
      {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0xaa, 0xbb, 0xff, 0xfe, 0, 0, 1},
      {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1},
  };
  description.node_guid = 0x02aabbfffe000001;
  description.sys_image_guid = 0x02aabbfffe000002;
  description.vendor_id = 0xfeed;
  description.vendor_part_id = 1;
  snprintf(description.fw_version, sizeof(description.fw_version), "test-1");
  snprintf(description.node_description, sizeof(description.node_description), "test node");
  description.port_state = 4;
  description.port_phys_state = 5;
  description.rate_mbps = 100'000;
  description.max_mtu_bytes = 4096;
  description.active_mtu_bytes = 1024;
  description.port_cap_flags = 0x04010000;
  description.gid_count = 4;
  for (int index = 0; index < 2; ++index) {
    uroce_gid& gid = description.gids[index];
    memcpy(gid.raw, kGids[index], sizeof(gid.raw));
    gid.netdev_ifindex = 1;
    snprintf(gid.netdev_name, sizeof(gid.netdev_name), "lo");
  }
  description.pkey_count = 1;
  description.pkeys[0] = 0xffff;
}

}  // namespace uroce::verbs
