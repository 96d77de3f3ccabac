#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "dpdk_nic/port/fabric/waiting_frames.h"
#include "dpdk_nic/port/packet_port.h"
#include "dpdk_nic/port/ring/answered_time.h"
#include "dpdk_nic/port/ring/ring_link.h"
#include "transport/route.h"
#include "transport/time.h"

namespace uroce::nic {

// The link to another process, or to uroced. FabricLinks has the meaning of the states.
struct Link {
  enum class State : uint8_t { kDown, kAsked, kUp, kEnded };

  std::unique_ptr<RingLink> ring;  // none if down, or if the request is not sent yet
  State state = State::kDown;
  PacketPort::PathState failure = PacketPort::PathState::kUnreachable;
  bool is_accepting = false;  // the thread maps the memory of an offer
  bool is_open = false;       // RingLink::IsOpen
  uint8_t idle_wakes = 0;     // wake-ups without a frame, in a row
  uint32_t unanswered = 0;    // requests that uroced has not answered
  uint32_t offer = 0;         // number of the last offer
  uint64_t woken_at_frame = 0;
  AnsweredTime answered;
  // When the link was asked for, came up, or went down.
  transport::Time since{-transport::Milliseconds(3'600'000).ns};  // long ago
  transport::Time cut_off_until{};

  // Of PolledLinks, while there is a ring: its place, and when frames were last seen.
  bool is_active = false;
  uint32_t place = 0;
  uint64_t frames = 0;
  transport::Time used_at{};

  // Of LinkTransmitter: frames that wait for the link, and datagrams that went by the uplink since
  // the last one.
  WaitingFrames::Queue waiting;
  uint16_t by_uplink = 0;
  transport::Time by_uplink_since{};
};

// All links of a process, by their routes.
class LinkSet {
 public:
  Link& operator[](transport::Route route) { return links_[static_cast<size_t>(route)]; }
  const Link& operator[](transport::Route route) const {
    return links_[static_cast<size_t>(route)];
  }
  auto begin() { return links_.begin(); }
  auto end() { return links_.end(); }

 private:
  std::array<Link, transport::kRoutes> links_;
};

}  // namespace uroce::nic
