#include "dpdk_nic/port/fabric/fabric_wire.h"

#include <algorithm>
#include <utility>

#include "dpdk_nic/port/udp/udp_address.h"
#include "transport/cm/mad.h"
#include "transport/wire/bth.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/frame_builder.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/ipv6.h"
#include "transport/wire/udp.h"

namespace uroce::nic {
namespace {

using transport::EthernetHeader;
using transport::Route;

// What only uroced can send: messages of the connection manager, whose connections it follows, and
// frames to a group, which it copies to the members on this host.
bool NeedsUroced(std::span<const uint8_t> frame) {
  constexpr uint8_t kGroupBit = 1;  // of an Ethernet address
  const EthernetHeader ethernet = transport::ParseEthernet(frame.data());
  if ((ethernet.destination[0] & kGroupBit) != 0) return true;
  const bool is_ipv6 = ethernet.ether_type == EthernetHeader::kIpv6;
  const size_t bth = EthernetHeader::kBytes + transport::UdpHeader::kBytes +
                     (is_ipv6 ? transport::Ipv6Header::kBytes : transport::Ipv4Header::kBytes);
  if (frame.size() < bth + transport::Bth::kBytes) return true;
  return transport::ParseBth(&frame[bth]).destination_qpn == transport::cm::kGeneralServicesQpn;
}

}  // namespace

FabricWire::FabricWire(FabricLinks& links) : links_(links) {
  held_.reserve(transport::kMaxFrameBytes);
}

void FabricWire::Open(const control::Welcome& fabric) {
  if (is_open()) return;
  const auto addresses = AddressesAmong(std::span(fabric.gids).first(fabric.gid_count));
  if (addresses.empty()) return;
  auto opened = UdpPort::OpenSender(addresses, fabric.mtu_bytes);
  if (opened.ok()) port_ = std::move(opened).value();
}

void FabricWire::Close() { port_.reset(); }

transport::FrameRoom FabricWire::Acquire() {
  if (!SendHeld()) return {};
  room_ = port_->AcquireTransmit(Route::kWire);
  return room_;
}

void FabricWire::Commit(size_t frame_bytes) {
  const std::span<const uint8_t> frame = room_.first(frame_bytes);
  if (!NeedsUroced(frame)) return port_->CommitTransmit(frame_bytes);
  if (!SendByRing(frame)) held_.assign(frame.begin(), frame.end());
}

bool FabricWire::SendByRing(std::span<const uint8_t> frame) {
  const std::span<uint8_t> room = links_.Acquire(Route::kWire);
  if (room.empty()) return false;
  std::copy(frame.begin(), frame.end(), room.begin());
  links_.Commit(frame.size());
  return true;
}

bool FabricWire::SendHeld() {
  if (held_.empty()) return true;
  if (!SendByRing(held_)) return false;
  held_.clear();
  links_.Flush();
  return true;
}

void FabricWire::ServeLink() {
  port_->ServeLink();
  SendHeld();
}

}  // namespace uroce::nic
