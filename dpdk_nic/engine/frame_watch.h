#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "dpdk_nic/port/frame_tap.h"
#include "dpdk_nic/port/packet_port.h"
#include "dpdk_nic/steering/flow_table.h"
#include "transport/endpoint.h"
#include "transport/time.h"
#include "transport/wire/icrc.h"

namespace uroce::nic {

// Shows an engine's frames to the tap and to the flows of raw packet queue pairs. Most engines have
// neither: is_on() is all that a frame costs then.
//
// Flows do not take RoCEv2 packets for an address or a group of the endpoint, as on mlx5, where the
// transport gets them before the flow tables. Sniffers get a copy of these, too, and of sent
// frames. The link layer still sees frames that a flow takes: the connections of the device depend
// on its own ARP and neighbour discovery.
//
// A raw frame that is sent to this host itself does not leave it: one to the Ethernet address of
// the device, or to an address that a matching flow names, as on a NIC whose flow tables see what
// its own port sends. One to a group leaves it, and a flow that is for such frames gets a copy. The
// default flows get none: programs that take all frames do not expect their own broadcasts.
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

  // The receiver of a frame. kFlow: a flow has taken it. kNobody: no flow takes it, and it is no
  // RoCEv2 packet.
  enum class Receiver : uint8_t { kEndpoint, kFlow, kNobody };

  // OnReceived, TurnsBack and OnSent are called only if is_on().
  Receiver OnReceived(transport::Time now, const PacketPort::ReceivedFrame& frame,
                      transport::Endpoint& endpoint);
  // Gives a frame that the transport is about to send to the flows of this host that are to have
  // it. True if it goes nowhere else.
  bool TurnsBack(transport::Time now, std::span<const uint8_t> frame,
                 transport::Endpoint& endpoint);
  void OnSent(transport::Time now, FrameTap::Direction direction, std::span<const uint8_t> frame,
              transport::IcrcUse icrc, transport::Endpoint& endpoint);
  void EndBurst() {
    if (is_tapped_) [[unlikely]]
      EndTappedBurst();
  }
  std::string TakeNotice() { return tap_ == nullptr ? std::string() : tap_->TakeNotice(); }

 private:
  void Tap(transport::Time now, FrameTap::Direction direction, std::span<const uint8_t> frame,
           transport::IcrcUse icrc);
  void EndTappedBurst();

  const std::unique_ptr<FrameTap> tap_;
  const bool has_ethernet_;
  bool is_on_;
  bool is_tapped_ = false;  // the tap saw frames since its last EndBurst
  FlowTable flows_;
  uint64_t next_flow_id_ = 0;
};

}  // namespace uroce::nic
