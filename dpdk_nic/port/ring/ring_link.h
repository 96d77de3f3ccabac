#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/port/ring/shm_ring.h"
#include "transport/wire/frame_room.h"
#include "transport/wire/icrc.h"

namespace uroce::nic {

// One end of a shared-memory link between two processes: a ring for each direction, and a socket
// pair that does what memory cannot. Its end of file tells that the other process is gone, however
// it ended; a byte on it wakes a sleeper. What the bytes are does not matter.
//
// The process that asks for the link creates it, keeps side 0, and sends the rest to its peer.
// Nothing the other process does makes this one wait, fault or read outside the slots. It may die
// at any instruction: what it had committed is still received.
class RingLink {
 public:
  // What the asker keeps and what the other side is to get. The two descriptors have to be closed
  // here once they are sent: the socket would hide the other side's end.
  struct Offer {
    std::unique_ptr<RingLink> link;
    UniqueFd memory;
    UniqueFd socket;
  };
  // Side 0. nullopt with errno set.
  static std::optional<Offer> Create();
  // Whether `socket` is a connected Unix stream or seqpacket socket, as a link has it. Others may
  // take long to be closed.
  static bool IsSocketOfALink(const UniqueFd& socket);
  // Side 1, from what came of an offer. nullptr with errno set; EPROTO if these are not a sealed
  // ring memory and a connected Unix stream or seqpacket socket.
  static std::unique_ptr<RingLink> Accept(UniqueFd memory, UniqueFd socket);
  // Side 1 over memory that was opened already and that no link uses any more.
  static std::unique_ptr<RingLink> Accept(std::shared_ptr<RingMemory> memory, UniqueFd socket);

  RingLink(const RingLink&) = delete;
  RingLink& operator=(const RingLink&) = delete;

  // The next frame, or an empty span when there is none. Valid until Release.
  std::span<const uint8_t> Receive() { return consumer_.Receive(); }
  // Of the frame that was received last.
  transport::IcrcCheck icrc_check() const { return transport::CheckOf(icrc_use()); }
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

  // Wakes the other side once more if it still has not taken what had been sent when this was
  // called last: a sleeper whose wake-up got lost is not lost with it. To be called now and then
  // while the link is used.
  void WakePeerIfBehind() {
    if (producer_.ConsumerIsBehind()) [[unlikely]]
      WakePeer();
  }

  // This side needs no ICRC any more, or no network headers either, in what it sends and in what it
  // receives.
  void Waive(transport::IcrcUse use) {
    waives_ = use;
    producer_.Waive(use);
  }
  // What both sides have waived. Is so before the first such frame arrives; one that was sent
  // earlier still is whole.
  transport::IcrcUse icrc_use() const {
    const uint32_t ours = static_cast<uint32_t>(waives_);
    return static_cast<transport::IcrcUse>(std::min(ours, consumer_.producer_waives()));
  }

  // Frames in both directions so far. Unchanged between two calls: the link is idle.
  uint64_t frames() const { return producer_.position() + consumer_.position(); }
  // Whether the other side leaves half of the slots unread.
  bool IsHalfFull() const { return producer_.Backlog() >= kSlots / 2; }

  // Side 0: whether the memory is protected against the other side (RingMemory), which does that
  // when it maps it. With `at_once` this side does it, and the other can map it no more. To be
  // called now and then until it is true.
  bool ProtectMemory(bool at_once);

  // Asks to be woken by a byte on the socket when a frame comes. Returns false if one is there
  // already: then do not sleep. EndSleep withdraws it, and costs no system call: the byte stays for
  // peer_alive(), which has to be asked whenever the socket is readable.
  bool BeginSleep() { return consumer_.BeginSleep(); }
  void EndSleep() { consumer_.EndSleep(); }

  // Looks at the socket and takes the bytes that are in it. False for ever once the other side's
  // end is seen; frames that it sent before may still be there.
  bool peer_alive();
  // The other side wrote what no correct one writes, as Receive or Acquire has found, which gives
  // nothing any more: it cannot be followed.
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
