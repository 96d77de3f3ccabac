#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "transport/counters.h"
#include "transport/endpoint_state.h"
#include "transport/events.h"
#include "transport/ids.h"
#include "transport/qp/deadline_queue.h"
#include "transport/qp/environment.h"
#include "transport/qp/receive_waiter.h"
#include "transport/qp/requester.h"
#include "transport/qp/responder.h"
#include "transport/qp/transmit_queue.h"
#include "transport/qp_attributes.h"
#include "transport/status.h"
#include "transport/time.h"
#include "transport/wire/frame_room.h"
#include "transport/wire/packet.h"
#include "transport/wire/packet_view.h"
#include "transport/work_request.h"

namespace uroce::transport {

// A queue pair: its state, its attributes, and the requester and responder that work for it.
//
// ibv_query_qp reports the fields that the protocol itself runs on; there is no second copy.
//
// With many queue pairs, each message finds its queue pair out of the cache. So the fields that
// nearly every message needs lie in a few cache lines, here and in the parts.
class alignas(64) QueuePair : public DeadlineClient, public TransmitClient, public EventSource {
 public:
  // The work requests: most of the memory of a queue pair, up to 50 MB. A struct of its own so that
  // this memory is built and freed without the engine's lock.
  struct Queues {
    explicit Queues(const QpInitAttributes& init)
        : sends(init.type, init.capabilities),
          receives(init.capabilities.max_receive_wr, init.capabilities.max_receive_sge) {}
    Queues(SendQueue&& s, ReceiveQueue&& r) : sends(std::move(s)), receives(std::move(r)) {}

    SendQueue sends;
    ReceiveQueue receives;
  };

  // `init` was checked by the endpoint, and `queues` were made for it. The attributes live in
  // `record`, which outlives the queue pair.
  QueuePair(Qpn qpn, const QpInitAttributes& init, Queues queues, QpEnvironment& environment,
            QueuePairRecord& record);
  ~QueuePair() override;

  // ibv_modify_qp. kInvalidArgument for a transition, an attribute or a value that the state tables
  // do not allow; nothing has changed then, nor after std::bad_alloc. A change to RESET drops the
  // completions of the queue pair, so it may not run during a Poll of its completion queues.
  Status Modify(const QpAttributes& attributes, uint32_t mask);
  // Returns what Modify would return now, and changes nothing.
  Status CheckModify(const QpAttributes& attributes, uint32_t mask) const;
  // ibv_query_qp: every field, whether or not it is valid in the present state.
  QpAttributes Query() const;

  // ibv_post_send / ibv_post_recv of one work request. Allowed in the states the specification
  // allows; in ERR it completes at once as flushed. kInvalidArgument: wrong state, opcode or
  // lengths; kNoMemory: the queue is full.
  Status PostSend(const SendWorkRequest& request);
  // The two halves of PostSend. Between them a caller may send the request at once, without a turn
  // in the transmit schedule (Endpoint::BuildAtOnce); then SendsPosted is not called.
  Status QueueSend(const SendWorkRequest& request);
  Status QueueSend(const PlainSendRequest& request);
  void SendsPosted();
  // ibv_wr_complete: all of `requests` in their order, or none of them.
  Status PostSends(std::span<const SendWorkRequest> requests);
  Status PostReceive(const ReceiveWorkRequest& request);

  Qpn qpn() const { return context_.qpn; }
  QpState state() const { return context_.attributes.state; }
  // With the capabilities that were granted.
  const QpInitAttributes& init_attributes() const { return context_.init; }

  // Whether a response or an ACK to the peer waits to be sent.
  bool OwesReply() const override { return responder_.HasReply() && MayReply(); }

  // The process of the peer by this route has ended. If the queue pair is connected to it, requests
  // that wait for a response, and those that are posted from now on, fail without further tries.
  void OnPeerGone(Route route);

  // The device has failed: moves the queue pair to ERR without an error event of its own.
  void Fail();

  // Removes this queue pair's completions from its completion queues. Not concurrent with Poll.
  void PurgeCompletions();

  // A shared queue of XRC is about to be destroyed.
  void Leave(const SharedReceiveQueue& queue) { responder_.Leave(queue); }

  // Hands out the work requests, to be freed elsewhere; the queue pair is destroyed next.
  Queues TakeQueues() { return {requester_.TakeQueue(), responder_.TakeReceives()}; }

  // For the endpoint. A packet to this QPN; its service is not checked yet.
  DropReason OnPacket(Time now, const Packet& packet);
  // Header prediction: whether a packet is the connected peer's.
  bool IsPeersPacket(const ReceivedPacket& received, const PacketView& view) const {
    return context_.predicts_network_headers && view.is_in_default_partition() &&
           context_.path.Matches(*received.flow, received.from);
  }
  // Whether a headerless frame that came by `from` is known to be the connected peer's. If not,
  // OnBareFrame checks it: kNone if it is accepted after all.
  bool TakesBareFrames(Route from) const { return context_.takes_headerless && from == route_; }
  DropReason OnBareFrame(Route from);
  // Takes a packet that is predicted, or a response. Otherwise nullopt, and nothing has changed.
  std::optional<DropReason> OnPredictedPacket(Time now, const PacketView& packet);
  DropReason OnPeersPacket(Time now, const Packet& packet);
  // A frame for a raw packet queue pair.
  DropReason OnRawFrame(std::span<const uint8_t> frame);
  void OnDeadline(Time now) override;
  size_t BuildFrame(Time now, const FrameRoom& out) override;
  // See Endpoint, which knows whether other frames wait; of the request that was queued last.
  bool MaySendAtOnce() const { return !is_queued() && requester_.MaySendAtOnce(); }
  size_t BuildAtOnce(Time now, const FrameRoom& out);
  // Whether a request was started and has not completed yet.
  bool AwaitsResponses() const { return !requester_.IsDrained(); }
  // The route of the next packet; a connection has one for all packets.
  Route route() const { return context_.is_datagram() ? requester_.NextRoute() : route_; }
  void UpdateNeighbor(const Gid& gid, const MacAddress& mac);
  // The GID table has changed.
  void FollowGids();

  const QueuePairCounters& counters() const { return context_.counters; }
  void CountReceived(size_t frame_bytes) {
    ++context_.counters.received_packets;
    context_.counters.received_bytes += frame_bytes;
  }

 private:
  // queue_pair_modify.cc
  bool IsTransition(const QpAttributes& attributes, uint32_t mask) const;
  bool AreValid(const QpAttributes& attributes, uint32_t mask) const;
  bool IsValid(const AddressVector& address) const;
  void Apply(const QpAttributes& attributes, uint32_t mask);
  bool MayBecome(MigrationState next, bool has_alternate) const;
  void Apply(MigrationState next);
  void Enter(QpState next);
  void SetState(QpState next);
  QpAttributes InitialAttributes() const;

  void CountTransmitted(size_t frame_bytes) {
    ++context_.counters.transmitted_packets;
    context_.counters.transmitted_bytes += frame_bytes;
  }
  void LeaveTransmit() { context_.environment.transmits.Remove(route_, *this); }
  bool MayReply() const;
  bool Processes(const Packet& packet) const;
  DropReason OnConnectedPacket(Time now, const Packet& packet);
  DropReason OnDatagram(const Packet& packet);
  void EnterError(VendorError why);
  void EnterSendQueueError();
  void FollowFailure() {
    if (requester_.failed() || responder_.failed() || context_.completion_lost) [[unlikely]]
      FollowFailureNow();
  }
  void FollowFailureNow();
  DropReason OnRelayedResponse(const Packet& packet);
  void AwaitSharedReceive();
  void TellDrained() {
    if (state() == QpState::kSendQueueDrain) [[unlikely]]
      TellIfDrained();
  }
  void TellIfDrained();
  void UpdateAfterEvent();
  void FollowDeadline();
  void UpdateAfterResponse();
  // The same after a request that was predicted: the requester and its route have not changed.
  void UpdateAfterRequest() {
    if (context_.completion_lost || responder_.failed()) [[unlikely]]
      return UpdateAfterEvent();
    if (!is_queued() && responder_.HasReply()) context_.environment.transmits.Add(route_, *this);
  }
  std::optional<DropReason> OnPredictedResponse(Time now, const PacketView& packet);
  void MarkReady();
  bool TellReceiverReady();

  Route route_ = Route::kWire;   // the transmit queue in use; for a connection that of its path
  bool responders_turn_ = true;  // to build the next frame, if both have one
  QpContext context_;
  Requester requester_;
  Responder responder_;
  QueuePairRecord& record_;

  struct SharedQueueWaiter final : ReceiveWaiter {
    explicit SharedQueueWaiter(QueuePair& owner) : qp(owner) {}
    bool OnReceivePosted() override { return qp.TellReceiverReady(); }
    QueuePair& qp;
  };
  SharedQueueWaiter shared_queue_waiter_{*this};
};

}  // namespace uroce::transport
