#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/port/ring/ring_memory.h"
#include "dpdk_nic/port/ring/shm_ring.h"
#include "transport/wire/frame_room.h"
#include "transport/wire/icrc.h"

namespace uroce::nic {

// One end of a shared-memory link between two processes: a ring for each direction, and a socket
// pair. The end of file of the socket tells that the other process is gone, however it ended; a
// byte on it, of any value, wakes a sleeper.
//
// The process that asks for the link creates it, keeps side 0, and sends the rest to its peer.
// Nothing the other process does makes this one wait, fault or read outside the slots. The other
// process may die at any instruction: frames that it had committed are still received.
class RingLink {
 public:
  // `link` stays with the process that asks; the descriptors are for the other side. They must be
  // closed here once they are sent: an open copy of the socket would hide the other side's end.
  struct Offer {
    std::unique_ptr<RingLink> link;
    UniqueFd memory;
    UniqueFd socket;
  };
  // Side 0. nullopt with errno set.
  static std::optional<Offer> Create();
  // Whether `socket` is a connected Unix stream or seqpacket socket, as a link needs. Descriptors
  // of other kinds may take long to close.
  static bool IsSocketOfALink(const UniqueFd& socket);
  // Side 1, from the descriptors of an offer. nullptr with errno set; EPROTO if these are not a
  // sealed ring memory and a connected Unix stream or seqpacket socket.
  static std::unique_ptr<RingLink> Accept(UniqueFd memory, UniqueFd socket);
  // Side 1 over memory that was opened already and that no link uses any more.
  static std::unique_ptr<RingLink> Accept(std::shared_ptr<RingMemory> memory, UniqueFd socket);

  RingLink(const RingLink&) = delete;
  RingLink& operator=(const RingLink&) = delete;

  // The next frame, or an empty span when there is none. Valid until Release.
  std::span<const uint8_t> Receive() { return consumer_.Receive(); }
  void Release() { consumer_.Release(); }

  // Room for the next frame, or an empty span when the ring is full. Asking again without
  // committing gives the same room.
  transport::FrameRoom Acquire() { return {producer_.Acquire(), icrc_use()}; }
  void Commit(size_t frame_bytes) { producer_.Commit(frame_bytes); }
  // Makes everything committed and released visible, and wakes the other side if it sleeps.
  void Flush() {
    consumer_.PublishPosition();
    if (producer_.ConsumerNeedsWake()) [[unlikely]]
      WakePeer();
  }

  // Wakes the other side once more if it still has not taken frames that were sent before the last
  // call: a lost wake-up must not leave it asleep. Call this now and then while the link is used.
  void WakePeerIfBehind() {
    if (producer_.ConsumerIsBehind()) [[unlikely]]
      WakePeer();
  }

  // This side no longer needs an ICRC, or network headers either, in the frames that it sends and
  // receives.
  void Waive(transport::IcrcUse use) {
    waives_ = use;
    producer_.Waive(use);
  }
  // Tells what both sides have waived. Valid before the first such frame arrives; a frame that was
  // sent earlier is still whole.
  transport::IcrcUse icrc_use() const {
    const uint32_t ours = static_cast<uint32_t>(waives_);
    return static_cast<transport::IcrcUse>(std::min(ours, consumer_.producer_waives()));
  }

  // Frames in both directions so far. Unchanged between two calls: the link is idle.
  uint64_t frames() const { return producer_.position() + consumer_.position(); }
  // Whether the other side leaves half of the slots unread.
  bool IsHalfFull() const { return producer_.Backlog() >= kSlots / 2; }

  // Whether the other side has opened the link; that of the process that asked may be opened late,
  // when the other process runs again. From then on the memory is sealed against holes.
  bool IsOpen();
  // Whether the other side has taken pages out of the memory before it was sealed.
  bool HasHoles() const { return memory_->fd() >= 0 && !memory_->IsWhole(); }

  // Frames sent, and how many of them the other side has read and answered (TellAnswered).
  uint64_t sent() const { return producer_.position(); }
  uint64_t answered() const { return producer_.answered(); }
  // Tells the other side that every answer to what was released is committed.
  void TellAnswered() { consumer_.PublishAnswered(); }

  // Tells the other side that this process lives on, although it closes the link.
  void Leave() { producer_.Leave(); }
  // Whether a link that ended did so because the other process ended.
  bool has_peer_died() const { return !peer_alive_ && !consumer_.producer_has_left(); }

  // Asks the other side for a byte on the socket when a frame comes. Returns false if a frame is
  // there already: then do not sleep. EndSleep withdraws the request without a system call: the
  // byte stays for peer_alive(), which must be called whenever the socket is readable.
  bool BeginSleep() { return consumer_.BeginSleep(); }
  void EndSleep() { consumer_.EndSleep(); }

  // Takes the bytes that are in the socket. False for ever once the other side's end is seen;
  // frames that it sent before may still be in the ring.
  bool peer_alive();
  // Receive or Acquire has found a value that no correct peer writes. From then on it returns
  // nothing.
  bool broken() const { return producer_.broken() || consumer_.broken(); }

  // Becomes readable when the other side wakes us or ends.
  int socket() const { return socket_.get(); }

  // In a forked child: closes the socket, so that the other side notices the parent's end. Nothing
  // but the destructor may follow. Async-signal-safe.
  void Abandon() {
    socket_.reset();
    memory_->CloseFd();
  }

 private:
  RingLink(std::shared_ptr<RingMemory> memory, UniqueFd socket, int side)
      : memory_(std::move(memory)),
        socket_(std::move(socket)),
        producer_(memory_->ring(side)),
        consumer_(memory_->ring(1 - side)) {}

  void WakePeer();

  std::shared_ptr<RingMemory> memory_;
  UniqueFd socket_;
  bool peer_alive_ = true;
  transport::IcrcUse waives_ = transport::IcrcUse::kCarried;
  FrameProducer producer_;
  FrameConsumer consumer_;
};

}  // namespace uroce::nic
