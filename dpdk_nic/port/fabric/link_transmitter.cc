#include "dpdk_nic/port/fabric/link_transmitter.h"

#include <algorithm>
#include <optional>

#include "dpdk_nic/base/clock.h"
#include "transport/wire/encapsulation.h"
#include "transport/wire/opcode.h"

namespace uroce::nic {
namespace {

using transport::Duration;
using transport::Milliseconds;
using transport::Route;
using transport::Time;

// A process gets a link once it was sent so many datagrams by the uplink, or one so long after the
// first. After kMaxDatagramsByUplink, when the link should long be there, none goes by the uplink.
constexpr uint16_t kDatagramsWorthALink = 16;
constexpr Duration kContactWorthALink = Milliseconds(20);
constexpr uint16_t kMaxDatagramsByUplink = 64;

// Whether a frame of ours is a datagram, which may overtake others.
bool IsDatagram(std::span<const uint8_t> frame) {
  const auto headers = transport::FindRocePacket(frame);
  const auto opcode = headers ? transport::ParseOpcode(frame[headers->bth_at()]) : std::nullopt;
  return opcode && opcode->service == transport::Service::kUnreliableDatagram;
}

void Send(RingLink& ring, std::span<uint8_t> room, std::span<const uint8_t> frame) {
  std::copy(frame.begin(), frame.end(), room.begin());
  ring.Commit(frame.size());
}

}  // namespace

void LinkTransmitter::SendWithoutLink(Route route, std::span<const uint8_t> frame) {
  if (SendByUplink(route, frame)) return;
  links_.AskIfDue(route, Now());
  Way& way = WayOf(route);
  if (way.ring != nullptr) {  // the request was carried out at once
    TransmitOn(route);
    return Send(*transmitting_, transmitting_->Acquire(), frame);
  }
  if (!links_.IsAskedFor(route)) {
    ++counters_.transmit_dropped_no_link;
  } else if (!waiting_.Add(way.waiting, frame)) {
    ++counters_.transmit_dropped_link_pending;
  }
}

bool LinkTransmitter::SendByUplink(Route route, std::span<const uint8_t> frame) {
  Way& way = WayOf(route);
  const bool is_possible = transport::IsLink(route) && WayOf(Route::kWire).ring != nullptr &&
                           !links_.HasEnded(route) && way.waiting.empty() &&
                           way.by_uplink < kMaxDatagramsByUplink;
  if (!is_possible || !links_.HasDestination(route) || !IsDatagram(frame)) return false;
  TransmitOn(Route::kWire);
  const std::span<uint8_t> room = transmitting_->Acquire();
  if (room.empty()) return false;
  Send(*transmitting_, room, frame);

  const Time now = Now();
  if (way.by_uplink++ == 0) way.by_uplink_since = now;
  if (way.by_uplink >= kDatagramsWorthALink || now - way.by_uplink_since >= kContactWorthALink) {
    links_.AskIfDue(route, now);
  }
  return true;
}

// The ring of a new link has room for all waiting frames.
void LinkTransmitter::OnUp(Route route, RingLink& ring) {
  Way& way = WayOf(route);
  way.ring = &ring;
  way.by_uplink = 0;
  if (way.waiting.empty()) return;
  TransmitOn(route);
  for (; !way.waiting.empty(); waiting_.RemoveFront(way.waiting)) {
    const std::span<uint8_t> room = transmitting_->Acquire();
    if (room.empty()) break;
    Send(*transmitting_, room, waiting_.Front(way.waiting));
  }
  DropWaiting(route);
  transmitting_->Flush();
}

void LinkTransmitter::OnDown(Route route) {
  OnIdle(route);
  WayOf(route).ring = nullptr;
}

void LinkTransmitter::DropWaiting(Route route) {
  counters_.transmit_dropped_no_link += waiting_.RemoveAll(WayOf(route).waiting);
}

void LinkTransmitter::OnIdle(Route route) {
  if (WayOf(route).ring == transmitting_) transmitting_ = nullptr;
}

void LinkTransmitter::TransmitOn(Route route) {
  RingLink* const ring = WayOf(route).ring;
  if (ring == transmitting_) return;
  if (transmitting_ != nullptr) transmitting_->Flush();
  transmitting_ = ring;
  polled_.Activate(route);
}

}  // namespace uroce::nic
