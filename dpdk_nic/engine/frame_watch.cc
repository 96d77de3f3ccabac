#include "dpdk_nic/engine/frame_watch.h"

#include <algorithm>
#include <utility>

#include "dpdk_nic/base/cancellation_guard.h"
#include "transport/wire/byte_order.h"
#include "transport/wire/udp.h"

namespace uroce::nic {
namespace {

using transport::IcrcUse;
using transport::Time;

bool IsRoce(const FrameFields& fields) {
  return (fields.layers & FrameFields::kUdp) != 0 && (fields.layers & FrameFields::kVlan) == 0 &&
         transport::Load16(fields.destination_port.data()) == transport::UdpHeader::kRocePort;
}

// Whether the endpoint gets the RoCEv2 packet whatever the flows say.
bool IsForEndpoint(const FrameFields& fields, const transport::Endpoint& endpoint) {
  const bool is_ipv4 = (fields.layers & FrameFields::kIpv4) != 0;
  const transport::Gid gid = is_ipv4 ? transport::Gid::FromIpv4(fields.ipv4_destination)
                                     : transport::Gid{fields.ipv6_destination};
  return endpoint.config().FindGid(gid) >= 0 || endpoint.HasMulticastMembers(gid);
}

}  // namespace

std::optional<uint64_t> FrameWatch::AddFlow(const FlowRule& rule, transport::QueuePair& qp) {
  if (!flows_.Add(next_flow_id_, rule, &qp)) return std::nullopt;
  is_on_ = true;
  return next_flow_id_++;
}

void FrameWatch::RemoveFlow(uint64_t id, const FlowRule& rule) {
  flows_.Remove(id, rule);
  is_on_ = tap_ != nullptr || !flows_.empty();
}

FrameWatch::Receiver FrameWatch::OnReceived(Time now, const PacketPort::ReceivedFrame& frame,
                                            transport::Endpoint& endpoint) {
  Tap(now, FrameTap::Direction::kReceived, frame.bytes, frame.icrc);
  if (flows_.empty() || frame.from != transport::Route::kWire) return Receiver::kEndpoint;
  endpoint.CopyFrame(now, frame.bytes, flows_.sniffers());
  if (!flows_.steers()) return Receiver::kEndpoint;
  const FrameFields fields = ReadFrameFields(frame.bytes);
  const bool is_roce = IsRoce(fields);
  if (is_roce && IsForEndpoint(fields, endpoint)) return Receiver::kEndpoint;
  const auto takers = flows_.Find(fields);
  if (takers.empty()) return is_roce ? Receiver::kEndpoint : Receiver::kNobody;
  endpoint.OnRawFrame(now, frame.bytes, takers);
  return Receiver::kFlow;
}

bool FrameWatch::TurnsBack(Time now, std::span<const uint8_t> frame,
                           transport::Endpoint& endpoint) {
  if (!flows_.steers()) return false;
  const FrameFields fields = ReadFrameFields(frame);
  if (IsRoce(fields)) return false;
  const bool is_to_group = (fields.destination_mac[0] & 1) != 0;
  const bool is_own = fields.destination_mac == endpoint.config().mac;
  const bool comes_back =
      is_to_group ? flows_.HasNormalRuleFor(fields) : is_own || flows_.NamesDestination(fields);
  if (!comes_back) return false;
  const auto takers = flows_.Find(fields);
  if (takers.empty()) return false;
  OnSent(now, FrameTap::Direction::kLoopedBack, frame, IcrcUse::kWaived, endpoint);
  // Sniffers see the frame as it arrives, and as it leaves, which the copy to a group does later.
  const int copies = is_to_group ? 1 : 2;
  for (int i = 0; i < copies; ++i) endpoint.CopyFrame(now, frame, flows_.sniffers());
  endpoint.OnRawFrame(now, frame, takers);
  return !is_to_group;
}

void FrameWatch::OnSent(Time now, FrameTap::Direction direction, std::span<const uint8_t> frame,
                        IcrcUse icrc, transport::Endpoint& endpoint) {
  Tap(now, direction, frame, icrc);
  if (direction == FrameTap::Direction::kSent) endpoint.CopyFrame(now, frame, flows_.sniffers());
}

void FrameWatch::Tap(Time now, FrameTap::Direction direction, std::span<const uint8_t> frame,
                     IcrcUse icrc) {
  if (tap_ == nullptr) return;
  tap_->OnFrame(now, direction, frame, icrc);
  is_tapped_ = true;
}

void FrameWatch::EndTappedBurst() {
  const CancellationGuard guard;
  is_tapped_ = false;
  tap_->EndBurst();
}

}  // namespace uroce::nic
