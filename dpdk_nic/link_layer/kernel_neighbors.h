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

// The neighbours on an interface that stays the kernel's. From addresses that the kernel has there,
// the kernel asks for neighbours, answers, and notices changes: this class reads its table, and
// makes it resolve what is missing there. For our other addresses a NeighborTable does
// the same by itself. Addresses that the kernel gets or loses meanwhile change hands.
//
// The kernel's changes are noticed within kCheckInterval, and those that a frame announces at once.
class KernelNeighbors final : public LinkLayer {
 public:
  static constexpr size_t kMaxDestinations = 1'024;

  static constexpr transport::Duration kCheckInterval = transport::Milliseconds(1'000);
  // The kernel sees the frame that we see, a moment later.
  static constexpr transport::Duration kKernelDelay = transport::Milliseconds(1);
  // Nothing that the kernel sends confirms a neighbour that only we talk to: it is reminded.
  static constexpr transport::Duration kRecheckInterval = transport::Milliseconds(30'000);
  // The kernel gives up after three seconds; until then another question changes nothing.
  static constexpr transport::Duration kAskInterval = transport::Milliseconds(1'000);
  // What one call does at most, so that a pass stays short.
  static constexpr int kMaxNewsAtOnce = 64;
  static constexpr int kMaxRechecksAtOnce = 16;

  // `addresses` are ours, the kernel's or not.
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
