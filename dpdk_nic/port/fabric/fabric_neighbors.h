#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/link_layer/link_layer.h"
#include "dpdk_nic/port/fabric/fabric_port.h"

namespace uroce::nic {

// The Ethernet addresses behind GIDs for a process of a fabric. uroced finds the addresses on the
// wire and announces them to all clients; this class asks for those that are needed. All other
// addresses are derived from the GID, as forwarding does not use them.
class FabricNeighbors final : public LinkLayer {
 public:
  // `port` outlives it.
  explicit FabricNeighbors(FabricPort& port);
  ~FabricNeighbors() override;

  bool OnFrame(transport::Time, std::span<const uint8_t>) override { return false; }
  size_t PollTransmit(transport::Time, std::span<uint8_t>) override { return 0; }
  bool HasTransmit() const override { return false; }
  std::optional<transport::MacAddress> Resolve(transport::Time now,
                                               const transport::Gid& gid) override;
  std::optional<Neighbor> TakeChange() override;

 private:
  struct Entry {
    std::optional<transport::MacAddress> mac;  // none: asked for
    transport::Time asked_at;
    uint32_t attachment = 0;  // in which it was asked for
  };

  void OnChange(const control::Neighbor& news);
  void ForgetIfFull();

  FabricPort& port_;
  std::map<transport::Gid, Entry> entries_;
  std::deque<Neighbor> changes_;  // not taken yet
};

}  // namespace uroce::nic
