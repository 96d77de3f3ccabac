#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/time.h"
#include "transport/wire/frame_room.h"

namespace uroce::transport {

// An object that may have frames to send.
class TransmitClient {
 public:
  virtual ~TransmitClient() = default;
  // Builds the next frame in `out`; returns its length, or 0 if there is nothing to send now. May
  // leave the queue it is called from, and enter another.
  virtual size_t BuildFrame(Time now, const FrameRoom& out) = 0;
  // Whether one of these frames answers a request of a peer.
  virtual bool OwesReply() const { return false; }

 protected:
  bool is_queued() const { return queued_; }

 private:
  friend class TransmitQueue;
  TransmitClient* previous_ = nullptr;
  TransmitClient* next_ = nullptr;
  bool queued_ = false;
};

// The queue pairs that may have something to send, served round robin in turns of kTransmitQuantum
// frames: short enough to be fair, long enough to keep a queue pair's state in the cache.
class TransmitQueue {
 public:
  // Puts the client at the end of the queue; nothing happens if it is in it already.
  void Add(TransmitClient& client);
  void Remove(TransmitClient& client);
  bool empty() const { return head_ == nullptr; }
  // Whether a client owes a reply. More than kMostAsked clients are not asked, and owe one.
  bool OwesReply() const;

  // The next frame of the client whose turn it is. A client with nothing to send leaves the queue.
  // 0 when no client has anything.
  size_t BuildFrame(Time now, const FrameRoom& out);

 private:
  static constexpr int kMostAsked = 64;

  TransmitClient* head_ = nullptr;
  TransmitClient* tail_ = nullptr;
  uint32_t frames_this_turn_ = 0;
};

}  // namespace uroce::transport
