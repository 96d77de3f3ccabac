#pragma once

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/link_layer/kernel_tables.h"
#include "dpdk_nic/link_layer/rtnetlink.h"

namespace uroce::nic {

// The kernel's own tables, of the network namespace that the object was made in. Where the system
// gives us no netlink, the tables look empty.
class RtnetlinkTables final : public KernelTables {
 public:
  explicit RtnetlinkTables(int interface_index);

  std::vector<LocalAddress> Addresses() override;
  transport::Gid NextHop(const transport::Gid& destination) override;
  Neighbor Find(const transport::Gid& neighbor) override;
  void Ask(const transport::Gid& neighbor) override;
  std::optional<Change> NextChange() override;

 private:
  bool Order(const transport::Gid& neighbor);
  void SendDatagram(const transport::Gid& neighbor);

  const int interface_index_;
  bool may_order_ = true;  // until the kernel says that we lack CAP_NET_ADMIN
  RtnetlinkSocket questions_;
  RtnetlinkSocket news_;
  UniqueFd ipv4_datagrams_;
  UniqueFd ipv6_datagrams_;
};

}  // namespace uroce::nic
