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
  requests_.AskIfDue(route, Now());
  Link& link = links_[route];
  if (link.state == Link::State::kUp) {  // the request was carried out at once
    TransmitOn(route);
    return Send(*transmitting_, transmitting_->Acquire(), frame);
  }
  if (link.state != Link::State::kAsked) {
    ++counters_.transmit_dropped_no_link;
  } else if (!waiting_.Add(link.waiting, frame)) {
    ++counters_.transmit_dropped_link_pending;
  }
}

bool LinkTransmitter::SendByUplink(Route route, std::span<const uint8_t> frame) {
  Link& link = links_[route];
  const bool is_possible = transport::IsLink(route) &&
                           links_[Route::kWire].state == Link::State::kUp &&
                           link.state != Link::State::kEnded && link.waiting.empty() &&
                           link.by_uplink < kMaxDatagramsByUplink;
  if (!is_possible || !requests_.HasDestination(route) || !IsDatagram(frame)) return false;
  TransmitOn(Route::kWire);
  const std::span<uint8_t> room = transmitting_->Acquire();
  if (room.empty()) return false;
  Send(*transmitting_, room, frame);

  const Time now = Now();
  if (link.by_uplink++ == 0) link.by_uplink_since = now;
  if (link.by_uplink >= kDatagramsWorthALink || now - link.by_uplink_since >= kContactWorthALink) {
    requests_.AskIfDue(route, now);
  }
  return true;
}

// The ring of a new link has room for all waiting frames.
void LinkTransmitter::OnUp(Route route) {
  Link& link = links_[route];
  link.by_uplink = 0;
  if (link.waiting.empty()) return;
  TransmitOn(route);
  for (; !link.waiting.empty(); waiting_.RemoveFront(link.waiting)) {
    const std::span<uint8_t> room = transmitting_->Acquire();
    if (room.empty()) break;
    Send(*transmitting_, room, waiting_.Front(link.waiting));
  }
  DropWaiting(route);
  transmitting_->Flush();
}

void LinkTransmitter::DropWaiting(Route route) {
  counters_.transmit_dropped_no_link += waiting_.RemoveAll(links_[route].waiting);
}

void LinkTransmitter::OnIdle(Route route) {
  if (links_[route].ring.get() == transmitting_) transmitting_ = nullptr;
}

void LinkTransmitter::TransmitOn(Route route) {
  RingLink* const ring = links_[route].ring.get();
  if (ring == transmitting_) return;
  if (transmitting_ != nullptr) transmitting_->Flush();
  transmitting_ = ring;
  polled_.Activate(route);
}

}  // namespace uroce::nic
