#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/port/ring/ring_link.h"
#include "transport/route.h"
#include "transport/time.h"

namespace uroce::nic {

// How far a frame to a group has come: it may take several passes.
struct FanOut {
  bool is_on_wire = false;
  size_t next_member = 0;
};

// For how long the senders of a group, and of connection management, wait for a process whose ring
// is full. It earns time by the frames that it takes: one that takes none delays the others once,
// and a slow one slows them to ten thousand frames a second at most.
struct WaitBudget {
  static constexpr transport::Duration kMost = transport::Milliseconds(50);
  static constexpr transport::Duration kEarnedByAFrame = transport::Microseconds(100);

  transport::Duration left = kMost;
  transport::Time waiting_since;
  bool is_waiting = false;
};

// The link of one process with the switch.
struct Uplink {
  // As many connections of a process are remembered, and may end at once. 1.5 MB.
  static constexpr size_t kMaxMessages = 4'096;
  // The peer repeats what was lost after 4 s.
  static constexpr transport::Duration kMessagesWaitFor = transport::Milliseconds(1'000);

  control::Block block;
  std::unique_ptr<RingLink> link;
  transport::Time last_used;
  FanOut fan_out;          // of the frame that is its next
  WaitBudget wait_budget;  // of others, for it
  // Of connection management, from the wire or the switch: they wait for room in its ring.
  std::deque<std::vector<uint8_t>> messages;
  uint64_t local_interval = 0;   // in which it sent to processes of this host last
  uint32_t local_datagrams = 0;  // that it sent in that interval
  int out_of_turn = 0;           // frames that were moved for it so, and that its turns pay for
  bool is_polled = false;
  bool has_ended = false;  // the process is gone: only what it sent before is left
  bool is_done = false;    // to be closed: broken, or ended and empty
};

// The uplinks of all processes, and which of them are looked at: an uplink is polled only while it
// is used. The others sleep until their process sends something and wakes us through the socket.
//
//               a frame for it, or a byte on its socket
//           +---------------------------------------------+
//           |                                             v
//      +---------+          quiet for a while        +--------+   broken, or its process
//      | asleep  | <-------------------------------- | polled | --- ended and it is empty -->
//      closed
//      +---------+                                   +--------+
//
// Moves no frames itself.
class Uplinks {
 public:
  // How long an uplink is polled after its last frame. Waking one up costs its process 7 us and us
  // 20, looking at it some nanoseconds.
  static constexpr transport::Duration kIdleTime = transport::Milliseconds(1);

  Uplinks();

  // A second one replaces the first. `block` is a process's.
  control::ErrnoValue Connect(transport::Time now, control::Block block,
                              std::unique_ptr<RingLink> link);
  void Close(control::Block block);
  // nullptr if the process has none.
  Uplink* Find(control::Block block) { return uplinks_[block].get(); }

  // Those to look at. Use and Close may change the order.
  const std::vector<Uplink*>& polled() const { return polled_; }
  // It has something to do now: to be polled from now on.
  void Use(transport::Time now, Uplink& uplink);

  // Takes the news from the sockets: wake-ups, and processes that are gone. One system call, and
  // one for each uplink that has news.
  void PollSockets(transport::Time now);
  // Closes those that are done.
  void CloseDone();
  // Puts to sleep what was quiet.
  void ParkIdle(transport::Time now);
  // Puts all to sleep. Returns false if one of them has a frame.
  bool ParkAll();
  // Becomes readable when a socket does.
  int wait_fd() const { return epoll_.get(); }

 private:
  bool Park(size_t index);

  UniqueFd epoll_;
  std::array<std::unique_ptr<Uplink>, transport::kQpnBlocks> uplinks_;
  std::vector<Uplink*> polled_;
};

}  // namespace uroce::nic
