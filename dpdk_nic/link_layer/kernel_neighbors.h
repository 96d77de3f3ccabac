#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dpdk_nic/link_layer/kernel_tables.h"
#include "dpdk_nic/link_layer/link_layer.h"
#include "dpdk_nic/link_layer/local_address.h"
#include "dpdk_nic/link_layer/neighbor_table.h"
#include "transport/ids.h"
#include "transport/time.h"

namespace uroce::nic {

// The neighbours on an interface that stays the kernel's. For addresses that the kernel has there,
// the kernel asks for neighbours, answers, and notices changes: this class reads the kernel's
// table, and has the kernel resolve missing neighbours. For our other addresses a NeighborTable
// does the same. An address that the kernel gets or loses changes sides.
//
// The kernel's changes are noticed within kCheckInterval, or kKernelDelay after a frame about them.
class KernelNeighbors final : public LinkLayer {
 public:
  static constexpr size_t kMaxDestinations = 1'024;

  static constexpr transport::Duration kCheckInterval = transport::Milliseconds(1'000);
  // So long after us, the kernel has read a frame, too.
  static constexpr transport::Duration kKernelDelay = transport::Milliseconds(1);
  // No traffic of the kernel confirms a neighbour that only we talk to: the kernel is asked again.
  static constexpr transport::Duration kRecheckInterval = transport::Milliseconds(30'000);
  // The kernel gives up after three seconds; until then another request changes nothing.
  static constexpr transport::Duration kAskInterval = transport::Milliseconds(1'000);
  // The limits of one call, so that a pass stays short.
  static constexpr int kMaxNewsAtOnce = 64;
  static constexpr int kMaxRechecksAtOnce = 16;

  // `addresses`: ours, whether the kernel has them or not.
  KernelNeighbors(std::unique_ptr<KernelTables> tables, const transport::MacAddress& mac,
                  std::vector<LocalAddress> addresses);

  bool OnFrame(transport::Time now, std::span<const uint8_t> frame) override;
  size_t PollTransmit(transport::Time now, std::span<uint8_t> out) override {
    return own_.PollTransmit(now, out);
  }
  bool HasTransmit() const override { return own_.HasTransmit(); }
  std::optional<transport::MacAddress> Resolve(transport::Time now,
                                               const transport::Gid& gid) override;
  transport::Time NextDeadline() const override;
  void OnDeadline(transport::Time now) override;
  std::optional<Neighbor> TakeChange() override;

 private:
  struct Destination {
    transport::Gid next_hop;
    std::optional<transport::MacAddress> mac;  // as the kernel has it now
    std::optional<transport::MacAddress> told_mac;
    std::optional<transport::Time> asked;  // last
    transport::Time last_event;            // the oldest entry is evicted
    transport::Time recheck = transport::kNever;
  };

  void DivideAddresses();
  bool IsOurs(const transport::Gid& gid) const;
  bool IsForKernel(const transport::Gid& destination) const;
  Destination& FindOrAdd(transport::Time now, const transport::Gid& gid);
  void Look(transport::Time now, const transport::Gid& gid, Destination* destination);
  void Apply(const KernelTables::Neighbor& state, const transport::Gid& gid,
             Destination* destination);
  void NextChange(transport::Time now);
  void OnChange(transport::Time now, const KernelTables::Change& news);
  void OnAddresses(transport::Time now);
  void Recheck(transport::Time now);

  const std::unique_ptr<KernelTables> tables_;
  const transport::MacAddress mac_;
  std::vector<LocalAddress> addresses_;           // ours
  std::vector<transport::Gid> kernel_addresses_;  // those of ours that the kernel has
  NeighborTable own_;
  std::map<transport::Gid, Destination> destinations_;
  std::deque<Neighbor> changes_;
  transport::Time next_check_;
  transport::Time next_recheck_ = transport::kNever;
};

}  // namespace uroce::nic
