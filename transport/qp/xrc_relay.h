#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "transport/ids.h"
#include "transport/psn.h"
#include "transport/qp/environment.h"
#include "transport/qp/transmit_queue.h"
#include "transport/route.h"
#include "transport/wire/frame_builder.h"
#include "transport/wire/frame_room.h"
#include "transport/wire/packet.h"
#include "transport/zeroed_array.h"

namespace uroce::transport {

// The requests that an XRC target has received and not answered, once one of them is for a shared
// receive queue of another process. A queue pair of that process executes it (XrcExecutors). The
// requests are executed in their order: those of one process may be under way together, those of
// the next follow when all are answered, and those for our own queues wait likewise.
//
//      front            waiting              next                back
//   -----|----------------|--------------------|-------------------|----->  requests
//        | answered       | sent               | to be sent        |
//
// Nothing is lost on a link. With impairments something may be: the peer's retransmission then
// leads to ours (SendAgain).
class XrcRelay final : public TransmitClient {
 public:
  // Of packets; a READ takes one for each response packet. As many as our requesters have in
  // flight.
  static constexpr uint32_t kCapacity = 256;
  // READs, atomics and the like that are under way together: an executor keeps so many responses.
  static constexpr uint32_t kMaxUnansweredResponses = 64;

  enum class Kind : uint8_t {
    kLocal,   // to be executed by this process
    kData,    // a packet of a SEND or WRITE
    kAtomic,  // compare and swap, fetch and add
    kNoData,  // FLUSH, ATOMIC WRITE: the response has no data
    kRead,    // the part of a READ that has one response packet
  };
  enum class Refusal : uint8_t { kNone, kReceiverNotReady, kNak };

  struct Request {
    TransportHeaders headers;  // of the peer's packet; kRead: the PSN is that of the response
    Kind kind;
    Position position;  // kRead: of the response
    bool is_replay;     // a duplicate
    Refusal refusal;    // instead of the answer
    NakCode nak;        // kNak
    uint32_t length;    // of the payload in bytes; kRead: of the response's
    Psn stream_psn;     // set when it is sent
    uint64_t result;    // of an atomic, once answered
  };

  // Of an XRC target with QpInitAttributes::xrc_key.
  explicit XrcRelay(QpContext& qp);
  ~XrcRelay() override;
  XrcRelay(const XrcRelay&) = delete;
  XrcRelay& operator=(const XrcRelay&) = delete;

  // Whether a queue with this number is another process's.
  bool IsForeign(Srqn srqn) const;

  bool empty() const { return front_ == back_ && read_.left == 0; }
  // The PSN behind all requests. Not empty().
  Psn next_psn() const { return next_psn_; }

  // False if there is no room; the peer has to send it again once empty().
  bool Push(const Packet& packet, Kind kind);
  // A READ of so many response packets.
  bool PushRead(const Packet& packet, uint32_t packets);
  // Answers a READ once more. False if there is no room, or another is being answered once more:
  // the peer will ask again. The next request of the peer will have the PSN `expected` if empty().
  bool PushReplay(const Packet& packet, uint32_t packets, Psn expected);

  // Whether the oldest request is answered, or is to be executed by this process, and is no READ
  // that TakeRead was called for.
  bool HasFront() const { return !is_read_taken_ && (front_ != waiting_ || IsLocalNext()); }
  // The oldest request is a READ that is answered: its data waits to be sent. PopFront follows.
  void TakeRead() { is_read_taken_ = true; }
  bool is_read_taken() const { return is_read_taken_; }
  const Request& front() const { return At(front_); }
  // The request in its first form, or the data of the READ.
  Packet FrontPacket() const;
  void PopFront();

  // The change by a response of an executor. kReady: kReceiverNotReady is over.
  enum class News : uint8_t { kForeign, kNone, kAnswers, kReady };
  News OnResponse(const Packet& packet);
  // Sends again what is not answered.
  void SendAgain();
  // Whether an executor has been sent something that it has not answered.
  bool IsWaiting() const { return waiting_ != next_; }
  Route route() const { return route_; }  // to that executor
  // Returns whether anything was answered since the last call.
  bool TakeProgress() { return std::exchange(seen_waiting_, waiting_) != waiting_; }
  // The executor does not answer: the oldest request is refused. IsWaiting().
  void GiveUp() { RefuseNext(Refusal::kNak, NakCode::kRemoteOperationalError); }
  // The process at the other end of `route` has ended: a request that waits for it is refused.
  // Returns whether one is.
  bool OnPeerGone(Route route);
  // Forgets all requests. The oldest was not executed, if it was sent.
  void Discard();
  // Forgets all requests, and ends the streams.
  void Reset();
  // Returns whether requests found no room since the last call.
  bool TakeOverflow();

  size_t BuildFrame(Time now, const FrameRoom& out) override;

 private:
  static constexpr uint32_t kMask = kCapacity - 1;
  static constexpr size_t kMaxPayloadBytes = kMaxFrameBytes;

  // The stream of requests to another process.
  struct Stream {
    Route route;
    Psn next_psn{};
    bool has_begun = false;  // an answer came
    bool is_gone = false;    // the process has ended
  };
  // A long READ, whose later parts have no room yet.
  struct LongRead {
    TransportHeaders headers;
    uint32_t packets = 0;
    uint32_t left = 0;  // packets
    bool is_replay = false;
  };

  Request& At(uint32_t number) { return requests_[number & kMask]; }
  const Request& At(uint32_t number) const { return requests_[number & kMask]; }
  uint8_t* DataOf(uint32_t number) { return &data_[(number & kMask) * kMaxPayloadBytes]; }
  bool HasRoom() { return back_ - front_ != kCapacity && read_.left == 0; }
  bool IsLocalNext() const;
  Route RouteOf(const Request& request) const {
    return RouteToBlock(BlockOf(Qpn{request.headers.xrceth.srqn.value}));
  }
  Request& Append(const TransportHeaders& headers, Kind kind, bool is_replay);
  void AppendParts();
  Stream& StreamTo(Route route);
  bool MaySend() const;
  void Schedule();
  void LeaveSchedule();
  size_t EmitBeginning(const Stream& stream, const FrameRoom& out);
  size_t EmitRequest(Stream& stream, const FrameRoom& out);
  bool AnswerBefore(Psn stream_psn);
  bool IsOldest(Psn stream_psn) const;
  void Take(const Packet& packet);
  void RefuseNext(Refusal refusal, NakCode nak);
  void NoteWhetherPeerWaits();

  QpContext& qp_;
  ZeroedArray<Request> requests_;  // rings of kCapacity
  ZeroedArray<uint8_t> data_;      // kMaxPayloadBytes a request
  uint32_t front_ = 0;             // all only count up, and wrap at 2^32
  uint32_t waiting_ = 0;
  uint32_t next_ = 0;
  uint32_t back_ = 0;
  Psn next_psn_;
  LongRead read_;
  uint32_t replays_ = 0;  // requests
  uint32_t unanswered_responses_ = 0;
  bool has_overflowed_ = false;
  bool is_read_taken_ = false;
  bool is_refused_ = false;        // the request before waiting_
  bool awaits_readiness_ = false;  // a message was refused with kReceiverNotReady
  bool is_beginning_sent_ = false;
  uint32_t seen_waiting_ = 0;         // waiting_, at the last TakeProgress
  bool peer_waits_ = false;           // counted in QpEnvironment::relaying_targets
  Route peers_route_ = Route::kWire;  // where it is counted
  uint64_t epoch_;
  FrameBuilder builder_;
  Route route_ = Route::kWire;   // of the stream in use, in whose transmit queue we are
  std::vector<Stream> streams_;  // grows with the processes that the peer sends to
};

}  // namespace uroce::transport
