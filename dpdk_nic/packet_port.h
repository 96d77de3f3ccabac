#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/ids.h"

namespace uroce::nic {

// Moves Ethernet frames (no FCS) between an engine and a wire. Frames are built and read in place.
//
// All calls come from whoever holds the engine's lock, one at a time, possibly from different
// threads. No call blocks.
class PacketPort {
 public:
  virtual ~PacketPort() = default;

  // The next received frame, or an empty span when there is none now. It stays valid until
  // ReleaseReceived, which must be called before the next Receive. Its bytes may be changed by
  // another process at any time.
  virtual std::span<const uint8_t> Receive() = 0;
  virtual void ReleaseReceived() = 0;

  // A buffer of at least transport::kMaxFrameBytes for the next frame, or an empty span when the
  // wire takes none now (back-pressure: try again later). A port without a peer takes frames and
  // drops them. Asking again without committing gives the same buffer.
  virtual std::span<uint8_t> AcquireTransmit() = 0;
  // Queues the frame that was built in the acquired buffer.
  virtual void CommitTransmit(size_t frame_bytes) = 0;
  // Makes everything committed and released visible to the other side; ends a burst.
  virtual void Flush() = 0;

  // Sleeping. BeginSleep announces that nobody polls from now on and returns false if there is
  // work already (then do not sleep). While asleep the wait_fd becomes readable when a frame
  // arrives. EndSleep withdraws the announcement and drains the fd; harmless when not asleep.
  // A port that cannot wake a sleeper has wait_fd() == -1 and must be polled.
  virtual int wait_fd() const { return -1; }
  virtual bool BeginSleep() { return true; }
  virtual void EndSleep() {}

  // Slow work that has no place in a pass: peers that come and go, links that must be restarted.
  // Called about once a millisecond while anybody runs the engine, and after every sleep.
  virtual void ServeLink() {}

  // In a forked child, before anything else: lets go of what only the parent may use (sockets whose
  // closing tells the peer of the parent's end). Only async-signal-safe calls. No other call
  // follows, not even the destructor: the memory stays as it is.
  virtual void AbandonAfterFork() {}

  struct Counters {
    uint64_t transmit_dropped_no_link = 0;
    uint64_t receive_malformed = 0;  // a slot or descriptor that made no sense
  };
  virtual Counters counters() const { return {}; }

  virtual transport::MacAddress mac() const = 0;
  // Largest IP packet in bytes (the netdev's MTU).
  virtual uint32_t mtu() const = 0;
  virtual bool link_up() const = 0;
  // Whether the port is gone for good, as a NIC that was taken out. Nothing brings it back.
  virtual bool failed() const { return false; }
};

}  // namespace uroce::nic
