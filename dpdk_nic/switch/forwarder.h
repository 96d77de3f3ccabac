#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dpdk_nic/control/frame_switch.h"
#include "dpdk_nic/engine/sleep_plan.h"
#include "dpdk_nic/link_layer/link_layer.h"
#include "dpdk_nic/port/socket_sharing.h"
#include "dpdk_nic/switch/connection_requests.h"
#include "dpdk_nic/switch/connection_tracker.h"
#include "dpdk_nic/switch/ethernet_wire.h"
#include "dpdk_nic/switch/forwarding_table.h"
#include "dpdk_nic/switch/frame_check.h"
#include "dpdk_nic/switch/frame_classifier.h"
#include "dpdk_nic/switch/neighbor_questions.h"
#include "dpdk_nic/switch/switch_listener.h"
#include "dpdk_nic/switch/uplinks.h"
#include "transport/cm/message_codec.h"
#include "transport/cm/messages.h"
#include "transport/ids.h"
#include "transport/time.h"

namespace uroce::nic {

// Moves frames between the NIC and the uplinks of the processes, in passes:
//
//   wire ----> FindReceiver    ----> copy into the ring of each        ring full: dropped
//   uplink --> CheckFromProcess ---> copy into a buffer of the wire    wire full: stays in its ring
//                             \----> and, to a group, into the rings of the other members
//                             \----> to a process of this host, into its ring: until the two have
//                                    a link. Bounded, so that no process fills another's ring
//
// Where processes have sockets of their own, an uplink also brings frames from the wire that
// arrived at the socket of the wrong process: they are handled as if they had come from the wire.
//
// A process that is slow to receive holds up only senders to a group that it is a member of, and
// senders of connection management, and these for a moment (WaitBudget). A process that sends more
// than the wire takes is held up itself. All uplinks have the same number of frames a turn; a copy
// to a member counts as a frame, and the copies of a frame with many members go on in the next
// pass.
//
// Not thread-safe; time is an argument. Without a wire (nullptr) frames go between processes only.
class Forwarder {
 public:
  // Frames and copies of an uplink, and frames of the wire, that are moved in a turn.
  static constexpr int kUplinkBurst = 32;
  static constexpr int kWireBurst = 64;
  // Frames of an uplink that may be moved out of turn, to empty its ring before a declaration ends.
  // Its next turns are shorter by as much.
  static constexpr int kOutOfTurn = kSlots;
  static constexpr int kWireCopies = 64;
  // Datagrams that one process may send to others of this host in a millisecond. Processes that
  // talk to each other have links; this suffices for a first datagram to each of them.
  static constexpr uint32_t kLocalDatagrams = 256;
  // A process of an earlier switch that has not come by then is gone. Processes that run come
  // within a fraction of a second.
  static constexpr transport::Duration kReattachWithin = transport::Milliseconds(5'000);

  // `link_layer` may be nullptr: StaticNeighbors. `gids` are those of the wire.
  Forwarder(std::unique_ptr<PacketPort> wire, std::unique_ptr<LinkLayer> link_layer,
            std::vector<transport::Gid> gids, SwitchListener listener);

  // The part of the wire that gives processes sockets of their own; nullptr: none has any.
  void SetSharing(SocketSharing* sharing) { sharing_ = sharing; }

  ForwardingTable& table() { return table_; }
  control::ErrnoValue ConnectUplink(transport::Time now, control::Block block,
                                    std::unique_ptr<RingLink> link);
  // Sends the frames left in the ring of the process, as far as the wire takes them, forgets the
  // process, and tells the peers of its connections that they have ended, once: DREQ, the DREP that
  // a DREQ waits for, or REJ while the connection was being made.
  void Remove(transport::Time now, control::Block block);
  // Like those of the table; also keep the wire a member of every group that has members on this
  // host. ENOSPC also if the wire cannot join; if it can only later, on_notice says why.
  control::ErrnoValue JoinGroup(control::Block block, const transport::Gid& group);
  void LeaveGroup(control::Block block, const transport::Gid& group);
  // The number of groups that the wire has room for; without a wire there is no limit.
  size_t max_groups() const { return has_wire() ? wire_->max_groups() : SIZE_MAX; }
  // Ends the declaration of a queue pair. First sends the frames left in the process's ring, as
  // Remove does: the last acknowledgement of the queue pair may be among them. Both move no more
  // than kOutOfTurn frames that the process's turns have not paid for yet.
  void Forget(transport::Time now, control::Block block, transport::Qpn local);
  // on_neighbor gets the answer; at once, if there is no room for the question or no wire.
  void Resolve(transport::Time now, const transport::Gid& gid);
  // Prepares the path to a host beyond the wire; a zero GID: to all of them. Returns the longest IP
  // packet that the path takes; on_notice tells what is wrong with the path. 0 without a wire.
  uint32_t PreparePath(const transport::Gid& remote);
  const control::SwitchCounters& counters() const { return counters_; }  // except the port's
  PortDrops port_drops() const { return has_wire() ? wire_->counters().drops : PortDrops{}; }

  // Makes a pass. Returns whether any frame was moved.
  bool RunOnce(transport::Time now);

  SleepPlan PlanSleep();  // call it when a pass found nothing to do
  void EndSleep();        // call it after every sleep and nap
  // Readable when an uplink has news for a forwarder that sleeps.
  int uplinks_fd() const { return uplinks_.wait_fd(); }

 private:
  bool has_wire() const { return wire_ != nullptr; }

  void ServeTimers(transport::Time now);
  void CheckWireState();
  void TellNotice();
  bool IsFromWire(const RoceHeaders& headers) const;
  SwitchDrop DeliverFromWire(transport::Time now, const Delivery& delivery,
                             const RoceHeaders& headers, const FrameHead& head,
                             std::span<const uint8_t> frame);
  bool ReceiveFromWire(transport::Time now);
  // Returns false if copies are left to be made. Subtracts the copies that it made from `copies`.
  bool AcceptFromWire(transport::Time now, std::span<const uint8_t> frame, int* copies);
  void TakeNeighborChanges();
  void Tell(const control::Neighbor& neighbor);
  bool RunDeadlines(transport::Time now);
  bool ServeHeldRequests(transport::Time now);
  // Whether a message of the connection manager stays in its sender's ring for now.
  bool IsToWait(transport::Time now, Uplink& sender, control::Block receiver,
                const RoceHeaders& headers);
  SwitchDrop SendOrQueue(transport::Time now, control::Block block, std::span<const uint8_t> frame);
  bool ServeQueues(transport::Time now);
  // Delivers a message of the connection manager, of any sender, to a process of this host. Returns
  // kNone also if the message is held or refused.
  SwitchDrop DeliverManagement(transport::Time now, control::Block sender, control::Block receiver,
                               const RoceHeaders& headers, std::span<const uint8_t> frame);
  std::span<const uint8_t> CopyManagement(const FrameHead& head, const RoceHeaders& headers,
                                          std::span<const uint8_t> frame);
  void Follow(control::Block sender, control::Block receiver, const RoceHeaders& headers,
              std::span<const uint8_t> frame);
  SwitchDrop DeliverDisconnect(transport::Time now, control::Block sender, control::Block receiver,
                               const RoceHeaders& headers, std::span<const uint8_t> frame,
                               uint64_t transaction_id);
  SwitchDrop PassOn(transport::Time now, control::Block sender, control::Block receiver,
                    std::span<const uint8_t> frame);
  bool IsGone(transport::Time now, control::Block block) const;
  bool IsAlive(transport::Time now, control::Block block);
  bool AnswerForGone(transport::Time now, control::Block receiver, const RoceHeaders& headers,
                     const transport::cm::ParsedMad& mad);
  void Disconnect(transport::Time now, const ConnectionTracker::Connection& connection);
  bool ServeDisconnects(transport::Time now);
  bool Postpone(transport::Time now, std::span<const uint8_t> frame);
  void SendDrep(transport::Time now, const ConnectionTracker::Connection& connection);
  // Sends a message to the peer of a connection, in the name of its process.
  void SendFor(transport::Time now, const ConnectionTracker::Connection& connection,
               const transport::cm::Message& message);
  // Sends to a process, or to the wire (kSwitchBlock).
  void SendManagement(transport::Time now, control::Block receiver, std::span<const uint8_t> frame);
  void Refuse(transport::Time now, control::Block sender, const RoceHeaders& headers,
              std::span<const uint8_t> frame);
  void AnswerPeerQuery(transport::Time now, const RoceHeaders& headers);
  bool TransmitLinkLayer(transport::Time now);
  transport::Time NextDeadline() const;

  bool ReceiveFromUplinks(transport::Time now);
  int ServeUplink(transport::Time now, Uplink& uplink, int most);
  void ServeOutOfTurn(transport::Time now, Uplink& uplink);
  // The fate of an uplink's next frame. kDone: sent or dropped; otherwise it stays in the ring.
  enum class Outcome : uint8_t { kDone, kWireFull, kReceiverFull, kMoreCopies };
  // Subtracts the copies that it made from `copies`.
  Outcome AcceptFromUplink(transport::Time now, Uplink& uplink, std::span<const uint8_t> frame,
                           int* copies);
  void EndPass();
  void Finish(transport::Time now, Uplink& uplink);

  SwitchDrop SendToProcess(transport::Time now, Uplink& sender, control::Block block,
                           const FrameHead& head, std::span<const uint8_t> frame);
  SwitchDrop SendToUplink(transport::Time now, control::Block block, const FrameHead& head,
                          std::span<const uint8_t> frame);
  // A frame to a group, and its sender.
  struct GroupFrame {
    const transport::Gid& group;
    control::Block sender;  // gets no copy; kSwitchBlock: the wire
    const FrameHead& head;
    std::span<const uint8_t> bytes;
  };
  // Makes further copies, as many as are left. Returns whether all members had theirs or have none;
  // counts those that single members could not get. The wire waits for no member.
  bool SendToGroup(transport::Time now, const GroupFrame& frame, FanOut* fan_out, int* copies);
  // Whether senders are to wait for a process whose ring has no room.
  bool MayWaitFor(transport::Time now, control::Block receiver);
  bool IsInItsShare(transport::Time now, Uplink& sender);
  bool IsHalfFull(control::Block block);

  const std::unique_ptr<PacketPort> wire_;
  EthernetWire ethernet_{wire_.get()};
  const std::unique_ptr<LinkLayer> link_layer_;  // destroyed before the wire
  const SwitchListener listener_;
  SocketSharing* sharing_ = nullptr;
  bool told_of_sockets_ = false;
  WireAddresses addresses_;
  size_t max_frame_bytes_;
  ForwardingTable table_;
  Uplinks uplinks_;
  NeighborQuestions questions_;
  ConnectionRequests requests_;
  ConnectionTracker tracker_;
  uint64_t services_seen_ = 0;                // ServiceTable::additions
  std::bitset<transport::kQpnBlocks> ended_;  // the blocks whose process is gone, and not replaced
  std::optional<transport::Time> began_;      // the first pass
  static constexpr size_t kManagementFrameBytes = 384;  // headers 82, MAD 256, ICRC 4, rounded up
  std::array<uint8_t, kManagementFrameBytes> management_frame_{};
  control::SwitchCounters counters_;
  transport::Time next_look_at_sockets_;
  transport::Time next_link_service_;
  std::optional<bool> wire_is_up_;
  size_t turn_ = 0;                // index in uplinks_.polled() of the first in the next pass
  std::span<const uint8_t> held_;  // a frame of the wire with copies left to be made
  FanOut held_fan_out_;
  bool wire_full_ = false;      // a frame waits for the wire since the last pass
  bool receiver_full_ = false;  // a frame waits for the ring of a process since the last pass
  bool any_done_ = false;       // an uplink is to be closed
};

}  // namespace uroce::nic
