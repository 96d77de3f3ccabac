#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "transport/completion_queue.h"
#include "transport/counters.h"
#include "transport/endpoint_config.h"
#include "transport/endpoint_state.h"
#include "transport/events.h"
#include "transport/general_services.h"
#include "transport/ids.h"
#include "transport/memory/memory_table.h"
#include "transport/multicast_table.h"
#include "transport/qp/deadline_queue.h"
#include "transport/qp/environment.h"
#include "transport/qp/queue_pair.h"
#include "transport/qp/shared_receive_queue.h"
#include "transport/qp/transmit_schedule.h"
#include "transport/qp/xrc_queues.h"
#include "transport/qp_attributes.h"
#include "transport/random_numbers.h"
#include "transport/status.h"
#include "transport/time.h"
#include "transport/wire/encapsulation.h"
#include "transport/wire/frame_room.h"
#include "transport/wire/packet_view.h"
#include "transport/xrc_executors.h"

namespace uroce::transport {

// One RoCEv2 device port as a pure state machine: frames, work requests and the time go in, frames,
// completions and events come out. It has no clock, no thread and no socket, makes no callbacks and
// allocates nothing once its objects are created. Calls are serialised by the caller (the engine's
// lock), except CompletionQueue::Poll.
//
// It owns the queue pairs and finds them by number; what they do with packets is in transport/qp/.
class Endpoint {
 public:
  // The endpoint lives in `state`, zeroed memory that outlives it; nullptr: in memory of its own.
  explicit Endpoint(const EndpointConfig& config, EndpointState* state = nullptr);
  ~Endpoint();

  // A shared table (EndpointConfig::memory) is changed only while no endpoint of it is in a call.
  MemoryTable& memory() { return memory_; }

  // Objects may be large: up to 128 MB. Allocating, clearing and freeing so much takes too long for
  // the engine's lock. So the const functions below, which allocate, need no lock, and the
  // functions that destroy return the memory for the caller to free.

  // `capacity` 1 .. kMaxCqEntries; `context` comes back in the queue's events; `timed`: see
  // CompletionQueue. The caller owns the queue and hands it back when no queue pair uses it any
  // more.
  std::unique_ptr<CompletionQueue> CreateCompletionQueue(uint32_t capacity, void* context,
                                                         bool timed = false) const;
  std::unique_ptr<CompletionQueue> DestroyCompletionQueue(std::unique_ptr<CompletionQueue> queue);

  // Takes over `queue` from another endpoint of the same device, for the queue pairs of this one.
  // No queue pair has used it yet, and neither endpoint is in a call.
  void AdoptCompletionQueue(CompletionQueue& queue) { queue.MoveTo(events_, queue_clock_); }

  // nullptr for capabilities over the limits. The caller owns the queue and hands it back when no
  // queue pair draws from it any more.
  std::unique_ptr<SharedReceiveQueue> CreateSharedReceiveQueue(
      const SrqInitAttributes& attributes) const;
  // XRC: gives the queue its number, by which requests find it. kNoMemory: there are kMaxSrqs, or,
  // of a linked process, kMaxQps. Others may use it as far as xrc_executors() permits.
  Status PublishXrcQueue(SharedReceiveQueue& queue) { return xrc_queues_.Add(queue); }
  XrcExecutors& xrc_executors() { return xrc_executors_; }
  std::unique_ptr<SharedReceiveQueue> DestroySharedReceiveQueue(
      std::unique_ptr<SharedReceiveQueue> queue);

  // The memory of a queue pair. kInvalidArgument for capabilities over the limits.
  Status CreateQueues(const QpInitAttributes& attributes,
                      std::optional<QueuePair::Queues>& out) const;
  // Creates a queue pair in RESET. CreateQueues made `queues` for the same attributes; on success
  // they are moved from, and `*out` is valid until DestroyQueuePair. The granted capabilities are
  // in (*out)->init_attributes(). kNoMemory when the QPN block is used up.
  Status CreateQueuePair(const QpInitAttributes& attributes, QueuePair::Queues&& queues,
                         QueuePair** out);
  // CreateQueues and CreateQueuePair in one.
  Status CreateQueuePair(const QpInitAttributes& attributes, QueuePair** out);
  // Removes the queue pair, its completions and its multicast memberships. Not concurrent with Poll
  // of its completion queues. Windows that are bound to it stay bound, but nothing can access them
  // any more (IBA o10-2.2.5).
  QueuePair::Queues DestroyQueuePair(QueuePair* qp);
  QueuePair* Find(Qpn qpn) const;  // nullptr if there is none

  // ibv_attach_mcast, ibv_detach_mcast: datagrams to `group` reach `qp`, also those that are sent
  // by queue pairs of this endpoint, `qp` itself included. kInvalidArgument if `group` is not a
  // multicast GID or `qp` not a datagram queue pair; see MulticastTable.
  Status AttachMulticast(QueuePair& qp, const Gid& group);
  Status DetachMulticast(QueuePair& qp, const Gid& group);
  bool IsAttachedToMulticast(const QueuePair& qp) const { return multicast_.IsMember(qp); }
  std::vector<Gid> MulticastGroupsOf(const QueuePair& qp) const { return multicast_.GroupsOf(qp); }
  bool HasMulticastMembers(const Gid& group) const { return !multicast_.Members(group).empty(); }

  // The port came up or went down: raises kPortActive or kPortError. Queue pairs retransmit.
  void TellPortState(bool active);

  // Replaces the GID table. Addresses that stay keep their index. Raises kGidChange. A queue pair
  // whose source address is gone cannot reach its peer: its ACK timeouts report that.
  void FollowGids(const std::vector<Gid>& gids);

  // The process that `route` leads to has ended, and all that it sent was received: requests to it
  // fail (QueuePair::OnPeerGone). TakeLostPeers: of how many queue pairs, since the last call.
  void OnPeerGone(Route route);
  int TakeLostPeers() { return std::exchange(environment_.lost_peers, 0); }

  // The device cannot work any more: raises kDeviceFatal and moves every queue pair to ERR.
  void Fail();

  // Whether completion queues need the time in calls that have no `now`. If so, the caller calls
  // SetTime before them.
  bool WantsTime() const { return queue_clock_.users.load(std::memory_order_relaxed) != 0; }
  void SetTime(Time now) { queue_clock_.now = now; }

  // A packet arrived. Returns kNone, or why it was dropped, which is counted.
  DropReason OnPacket(Time now, const ReceivedPacket& received);
  // The same for an Ethernet frame; with IcrcUse::kWaivedWithHeaders it may be a bare one.
  DropReason OnFrame(Time now, std::span<const uint8_t> frame, Route from = Route::kWire,
                     IcrcUse icrc = IcrcUse::kCarried);

  // The same for a frame that flows steer to the raw packet queue pairs `takers`: each gets a copy.
  // The frame counts as dropped if none of them accepted it or there are none.
  DropReason OnRawFrame(Time now, std::span<const uint8_t> frame,
                        std::span<QueuePair* const> takers);
  // Gives raw packet queue pairs (`watchers`) a copy of a frame that is counted elsewhere.
  void CopyFrame(Time now, std::span<const uint8_t> frame, std::span<QueuePair* const> watchers);

  // When to call OnDeadline; kNever if no timer runs. May be earlier than the first timer.
  Time NextDeadline() const { return deadlines_.Next(); }
  void OnDeadline(Time now);

  // Whether there may be something to send: by any route, by one, or in reply to a peer.
  bool HasTransmit() const { return !transmits_.IsEmpty(); }
  bool HasTransmit(Route route) const { return !transmits_.IsEmpty(route); }
  bool OwesReply(Route route) const { return environment_.OwesReply(route); }
  // The first route from `from` on that may have something to send; nullopt if none is left.
  std::optional<Route> FirstTransmit(Route from) const { return transmits_.FirstReady(from); }
  // Builds the next frame for `route` in `out`. Returns its bytes; 0: nothing is to be sent now.
  size_t PollTransmit(Time now, Route route, const FrameRoom& out);

  // Sends a request without a turn in the transmit schedule; called after QueuePair::QueueSend.
  // MaySendAtOnce: the request is one packet that may go now, and no other frame waits. BuildAtOnce
  // returns the length of the frame, which goes by QueuePair::route(); 0, and nothing has changed,
  // if the packet has to take its turn after all.
  bool MaySendAtOnce(const QueuePair& qp) const {
    return transmits_.IsEmpty() && qp.MaySendAtOnce();
  }
  size_t BuildAtOnce(Time now, QueuePair& qp, const FrameRoom& out);

  // Whether a peer on a link waits for an ACK that it has asked for since TellAcksSent.
  bool is_ack_wanted() const { return environment_.is_ack_wanted; }
  void TellAcksSent() { environment_.is_ack_wanted = false; }

  // Completion notifications and asynchronous events, oldest first.
  std::optional<Event> TakeEvent() { return events_.Take(); }
  // Whether a completion queue is armed: a program may sleep until its event.
  bool is_event_awaited() const { return events_.armed != 0; }

  // Queue pair 1; nullptr until UseGeneralServices, a packet to it or a query creates it.
  GeneralServices* general_services() { return queue_pair_one_.services(); }
  GeneralServices& UseGeneralServices() { return queue_pair_one_.UseServices(); }
  PeerTable& peers() { return queue_pair_one_.peers(); }

  // The Ethernet address of a neighbour changed, and with it the paths there.
  void UpdateNeighbor(const Gid& gid, const MacAddress& mac);

  const EndpointConfig& config() const { return config_; }
  // Sums up all queue pairs, those that are destroyed included: not for the data path.
  Counters counters() const;

 private:
  DropReason Deliver(Time now, const Packet& packet);
  DropReason Take(Time now, const ReceivedPacket& received);
  DropReason OnOtherPacket(Time, const ReceivedPacket&, const PacketView&, bool, QueuePair*&);
  DropReason OnEthernetFrame(Time now, std::span<const uint8_t> frame, Route from, IcrcUse icrc);
  DropReason OnBareFrame(Time now, std::span<const uint8_t> frame, Route from);
  DropReason OnOtherBareFrame(Time now, QueuePair* qp, const PacketView& peers, Route from);
  DropReason DeliverMulticast(Time now, const Packet& packet);
  void CountReceived(QueuePair* receiver, size_t frame_bytes, DropReason result);
  void LoopBackMulticast(Time now, size_t frame_bytes, const FrameRoom& built);
  size_t ChooseFreeQpn();

  struct Free {
    void* memory;  // the allocation that contains the state
    void operator()(EndpointState* state) const;
  };
  static std::unique_ptr<EndpointState, Free> NewState();

  EndpointConfig config_;
  std::unique_ptr<EndpointState, Free> own_state_;
  EndpointState* const state_;
  const std::unique_ptr<MemoryTable> own_memory_;
  MemoryTable& memory_;
  EventQueue events_;
  DeadlineQueue deadlines_;
  mutable QueueClock queue_clock_{deadlines_};  // CreateCompletionQueue is const
  TransmitSchedule transmits_;
  MulticastTable multicast_;
  XrcQueues xrc_queues_;
  XrcFarewells xrc_farewells_;
  ReorderPool reorder_pool_;
  EventSource device_;
  QueuePairOne queue_pair_one_;
  QpEnvironment environment_;
  std::vector<std::unique_ptr<QueuePair>> queue_pairs_;  // by QPN - first_qpn
  RandomNumbers random_;
  Decapsulator decapsulator_;
  ReceivedPacket stripped_;          // in OnFrame; a member, as nothing clears it then
  std::vector<uint16_t> free_qpns_;  // QPN - first_qpn, the most recently freed last
  XrcExecutors xrc_executors_{*this};
};

}  // namespace uroce::transport
