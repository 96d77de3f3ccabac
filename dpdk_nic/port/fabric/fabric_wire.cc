#include "dpdk_nic/port/fabric/fabric_wire.h"

#include <algorithm>
#include <array>
#include <utility>

#include "dpdk_nic/port/udp/udp_address.h"
#include "transport/route.h"
#include "transport/wire/encapsulation.h"
#include "transport/wire/mad.h"
#include "transport/wire/packet_view.h"

namespace uroce::nic {
namespace {

using transport::Route;

// Frames for other processes in a row that one Receive passes on before it returns none.
constexpr int kMostPassedOn = 64;

// Whether only uroced can send the packet: messages of the connection manager, whose connections
// uroced follows, and frames to a group, which uroced copies to the members on this host.
bool NeedsUroced(const transport::FrameRoom& built) {
  if (built.flow->destination.IsZero()) return false;  // the port drops it
  const transport::Qpn qpn = transport::ViewPacket(built).destination_qpn();
  return built.flow->destination.IsMulticast() || qpn.value <= transport::kGeneralServicesQpn.value;
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
  block_ = fabric.block;
  receivers_ = 0;
}

void FabricWire::Close() { port_.reset(); }

void FabricWire::Follow(const control::Welcome& fabric) {
  port_->SetAddresses(AddressesAmong(std::span(fabric.gids).first(fabric.gid_count)));
}

bool FabricWire::AddReceiver(UniqueFd socket) {
  if (!is_open() || receivers_ == kMaxReceivers) return false;
  auto adopted = UdpSocket::Adopt(std::move(socket));
  if (!adopted || !port_->AddReceiver(std::move(*adopted))) return false;
  ++receivers_;
  passes_without_frame_ = 0;
  return true;
}

void FabricWire::DropReceivers() {
  receivers_ = 0;
  if (is_open()) port_->DropReceivers();
}

PacketPort::ReceivedFrame FabricWire::Receive() {
  for (int left = kMostPassedOn; left != 0; --left) {
    const PacketPort::ReceivedFrame frame = port_->Receive();
    if (frame.packet == nullptr) return frame;
    passes_without_frame_ = 0;
    const transport::Qpn qpn = transport::ViewPacket(frame.packet->bytes).destination_qpn();
    if (transport::BlockOf(qpn) == block_) return frame;
    PassOn(frame);
    port_->ReleaseReceived();
  }
  return {};
}

// A frame that waits already goes first. The sender repeats a frame that is lost.
void FabricWire::PassOn(const PacketPort::ReceivedFrame& frame) {
  const std::span<uint8_t> room =
      SendHeld() ? links_.Acquire(Route::kWire) : transport::FrameRoom();
  if (room.empty()) {
    ++not_passed_on_;
  } else {
    links_.Commit(port_->EthernetFrameOf(frame, room).size());
  }
}

// No member keeps the room: copying a span that was just returned in memory waits for its stores.
transport::FrameRoom FabricWire::Acquire() {
  if (!SendHeld()) return {};
  return port_->AcquireTransmit(Route::kWire);
}

void FabricWire::Commit(size_t frame_bytes) {
  const transport::FrameRoom built = port_->built();
  if (!NeedsUroced(built)) return port_->CommitTransmit(frame_bytes);
  std::array<uint8_t, transport::kMaxFrameBytes> room;
  const auto frame = transport::BuiltFrame(built, frame_bytes, room);
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

PacketPort::Counters FabricWire::counters() const {
  PacketPort::Counters counters = port_->counters();
  counters.drops[PortDrop::kNotPassedOn] += not_passed_on_;
  return counters;
}

void FabricWire::ServeLink() {
  port_->ServeLink();
  SendHeld();
}

}  // namespace uroce::nic
