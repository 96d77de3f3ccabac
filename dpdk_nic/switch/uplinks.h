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

// How far the copies of a frame to a group have come: they may take several passes.
struct FanOut {
  bool is_on_wire = false;
  size_t next_member = 0;
};

// How long senders to a group, and of connection management, wait for a process whose ring is full.
// The process earns time by the frames that it takes: one that takes none delays the senders once,
// and a slow one slows them to ten thousand frames a second at worst.
struct WaitBudget {
  static constexpr transport::Duration kMost = transport::Milliseconds(50);
  static constexpr transport::Duration kEarnedByAFrame = transport::Microseconds(100);

  transport::Duration left = kMost;
  transport::Time waiting_since;
  bool is_waiting = false;
};

// The link of one process with the switch.
struct Uplink {
  // ConnectionTracker keeps as many connections of a process, which may all end at once. 1.5 MB.
  static constexpr size_t kMaxMessages = 4'096;
  // The peer repeats a lost message after 4 s.
  static constexpr transport::Duration kMessagesWaitFor = transport::Milliseconds(1'000);

  control::Block block;
  std::unique_ptr<RingLink> link;
  transport::Time last_used;
  FanOut fan_out;          // of its next frame
  WaitBudget wait_budget;  // of senders that wait for it
  // Messages of connection management, from the wire or the switch, that wait for room in the ring.
  std::deque<std::vector<uint8_t>> messages;
  uint64_t local_interval = 0;   // in which it last sent to processes of this host
  uint32_t local_datagrams = 0;  // that it sent in that interval
  int out_of_turn = 0;           // frames moved out of turn, which its turns still pay for
  bool is_polled = false;
  bool has_ended = false;  // the process is gone: only what it sent before is left
  bool is_done = false;    // to be closed: broken, or ended and empty
};

// The uplinks of all processes. An uplink is polled only while it is used. The others sleep until
// their process sends something and wakes the switch through the socket.
//
//               a frame for it, or a byte on its socket
//           +--------------------------------------------+
//           |                                            v
//      +---------+         quiet for a while        +--------+   broken, or its process
//      | asleep  | <------------------------------- | polled | --- ended and it is empty --> closed
//      +---------+                                  +--------+
//
// Moves no frames itself.
class Uplinks {
 public:
  // How long an uplink is polled after its last frame. Waking the switch costs the process 7 us and
  // the switch 20 us; polling costs some nanoseconds.
  static constexpr transport::Duration kIdleTime = transport::Milliseconds(1);

  Uplinks();

  // Adds the uplink of a process; a second one replaces the first.
  control::ErrnoValue Connect(transport::Time now, control::Block block,
                              std::unique_ptr<RingLink> link);
  void Close(control::Block block);
  // nullptr if the process has none.
  Uplink* Find(control::Block block) { return uplinks_[block].get(); }

  // The uplinks to poll. Use and Close may change the order.
  const std::vector<Uplink*>& polled() const { return polled_; }
  // The uplink has something to do: it is polled from now on.
  void Use(transport::Time now, Uplink& uplink);

  // Reads the news from the sockets: wakeups, and processes that are gone. One system call, and one
  // for each uplink with news.
  void PollSockets(transport::Time now);
  // Closes the uplinks that are done.
  void CloseDone();
  // Puts the uplinks to sleep that were quiet for kIdleTime.
  void ParkIdle(transport::Time now);
  // Puts all uplinks to sleep. Returns false if one has to be polled, as it has a frame.
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
