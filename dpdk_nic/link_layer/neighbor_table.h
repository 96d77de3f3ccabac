#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "dpdk_nic/link_layer/arp.h"
#include "dpdk_nic/link_layer/link_layer.h"
#include "dpdk_nic/link_layer/local_address.h"
#include "dpdk_nic/link_layer/neighbor_discovery.h"
#include "transport/ids.h"
#include "transport/time.h"

namespace uroce::nic {

// The neighbours on an Ethernet link: asks for their addresses by ARP and IPv6 neighbour discovery,
// answers for ours, learns from received questions. A pure state machine: time is an argument.
// Handles no RoCEv2 frames, which are the transport's, and no other ICMP.
//
//            Resolve: asks all               answer
//   (none) -------------------> incomplete ---------> reachable <--------+
//                                ^      |                 | 30 s         | answer
//                   Resolve, 1 s |      | 5 unanswered    v              |
//                         later  |      v              probing ----------+
//                                +--- failed <------------+
//                                            3 unanswered, by unicast
class NeighborTable final : public LinkLayer {
 public:
  // The neighbour through which `destination` is reached: itself, or a gateway.
  using NextHop = std::function<transport::Gid(const transport::Gid& destination)>;

  struct Config {
    transport::MacAddress mac{};
    std::vector<LocalAddress> addresses;  // ours
    NextHop next_hop;                     // none: all hosts are on the link
  };

  static constexpr size_t kMaxNeighbors = 1'024;
  static constexpr size_t kMaxRoutes = 1'024;  // destinations behind a gateway
  static constexpr size_t kMaxQueuedFrames = 64;

  static constexpr transport::Duration kFirstAskInterval = transport::Milliseconds(100);  // doubles
  static constexpr int kMaxAsks = 5;
  static constexpr transport::Duration kReachableTime = transport::Milliseconds(30'000);
  static constexpr transport::Duration kProbeInterval = transport::Milliseconds(1'000);
  static constexpr int kMaxProbes = 3;
  static constexpr transport::Duration kFailedTime = transport::Milliseconds(1'000);

  // Announces our addresses: neighbours that knew another MAC for them correct it.
  explicit NeighborTable(Config config);

  // Replaces our addresses. Announces the new ones.
  void SetAddresses(std::vector<LocalAddress> addresses);

  bool OnFrame(transport::Time now, std::span<const uint8_t> frame) override;
  size_t PollTransmit(transport::Time now, std::span<uint8_t> out) override;
  bool HasTransmit() const override { return !outgoing_.empty(); }
  std::optional<transport::MacAddress> Resolve(transport::Time now,
                                               const transport::Gid& gid) override;
  transport::Time NextDeadline() const override { return next_deadline_; }
  void OnDeadline(transport::Time now) override;
  std::optional<Neighbor> TakeChange() override;

 private:
  enum class State { kIncomplete, kReachable, kProbing, kFailed };
  struct Entry {
    State state = State::kIncomplete;
    std::optional<transport::MacAddress> mac;  // kept when failed, to see that it changed
    int asked = 0;                             // unanswered, in this state
    transport::Time deadline = transport::kNever;
    transport::Time last_event;  // the oldest entry is evicted
  };
  struct Frame {
    std::array<uint8_t, kMaxNeighborMessageBytes> bytes;
    size_t length = 0;
  };
  using Entries = std::map<transport::Gid, Entry>;

  void OnArp(transport::Time now, const ArpPacket& packet);
  void OnSolicitation(transport::Time now, const NeighborMessage& message);
  void OnAdvertisement(transport::Time now, const NeighborMessage& message);

  Entry* Find(const transport::Gid& gid);
  Entry& FindOrAdd(transport::Time now, const transport::Gid& gid);
  void Learn(transport::Time now, const transport::Gid& gid, const transport::MacAddress& mac);
  void Confirm(transport::Time now, Entry* entry);
  void StartAsking(transport::Time now, const transport::Gid& gid, Entry* entry);
  void Expire(transport::Time now, const transport::Gid& gid, Entry* entry);
  void UpdateNextDeadline();

  void Ask(const transport::Gid& gid, const std::optional<transport::MacAddress>& alone);
  void AskByArp(const transport::Gid& gid, const transport::MacAddress& destination);
  void AskByDiscovery(const transport::Gid& gid, const std::optional<transport::MacAddress>& alone);
  void Announce(const transport::Gid& gid);
  void Queue(const ArpPacket& packet, const transport::MacAddress& destination);
  void Queue(const NeighborMessage& message, const transport::MacAddress& destination);
  Frame* AddOutgoing();

  bool IsOurs(const transport::Gid& gid) const;
  transport::Gid SourceFor(const transport::Gid& destination) const;

  Config config_;
  Entries entries_;
  std::map<transport::Gid, transport::Gid> routes_;  // destination -> gateway
  std::deque<Frame> outgoing_;
  std::deque<Neighbor> changes_;
  transport::Time next_deadline_ = transport::kNever;
};

}  // namespace uroce::nic
