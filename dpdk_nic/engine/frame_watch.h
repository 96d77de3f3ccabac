#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "dpdk_nic/port/frame_tap.h"
#include "dpdk_nic/port/packet_port.h"
#include "dpdk_nic/steering/flow_table.h"
#include "transport/endpoint.h"
#include "transport/time.h"
#include "transport/wire/icrc.h"

namespace uroce::nic {

// What looks at the frames of an engine beside its endpoint and its link layer: the tap, and the
// flows of raw packet queue pairs. Mostly there is neither: is_on() is all that a frame costs then.
//
// Flows do not take the RoCEv2 packets that are for an address or a group of the endpoint, as on
// mlx5, where the transport has them before the flow tables; sniffers have a copy of these, too,
// and of what is sent. What a flow takes is still shown to the link layer: ARP and neighbour
// discovery are the device's own, on which its connections depend.
//
// Not for concurrent use: all calls are made under the engine's lock.
class FrameWatch {
 public:
  // `has_ethernet`: flows are possible, as the port carries Ethernet frames of any kind.
  FrameWatch(std::unique_ptr<FrameTap> tap, bool has_ethernet)
      : tap_(std::move(tap)), has_ethernet_(has_ethernet), is_on_(tap_ != nullptr) {}

  bool has_ethernet() const { return has_ethernet_; }
  bool is_on() const { return is_on_; }

  // nullopt: there are too many flows. Throws std::bad_alloc.
  std::optional<uint64_t> AddFlow(const FlowRule& rule, transport::QueuePair& qp);
  void RemoveFlow(uint64_t id, const FlowRule& rule);

  // Whom a frame is for. kFlow: a flow has taken it. kNobody: no flow does, and it is no RoCEv2
  // packet either.
  enum class Receiver : uint8_t { kEndpoint, kFlow, kNobody };

  // Not called unless is_on(), as OnSent.
  Receiver OnReceived(transport::Time now, const PacketPort::ReceivedFrame& frame,
                      transport::Endpoint& endpoint);
  void OnSent(transport::Time now, FrameTap::Direction direction, std::span<const uint8_t> frame,
              transport::IcrcUse icrc, transport::Endpoint& endpoint);
  void EndBurst() {
    if (is_tapped_) [[unlikely]]
      EndTappedBurst();
  }

 private:
  void Tap(transport::Time now, FrameTap::Direction direction, std::span<const uint8_t> frame,
           transport::IcrcUse icrc);
  void EndTappedBurst();

  const std::unique_ptr<FrameTap> tap_;
  const bool has_ethernet_;
  bool is_on_;
  bool is_tapped_ = false;  // frames since FrameTap::EndBurst
  FlowTable flows_;
  uint64_t next_flow_id_ = 0;
};

}  // namespace uroce::nic
