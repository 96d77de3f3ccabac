#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "dpdk_nic/control/protocol.h"
#include "transport/ids.h"

// The messages between uroced and the processes of its fabric, over a Unix stream socket.
//
//   MessageHeader | body        `bytes` counts the body; a body has exactly the size of its struct
//
// Descriptors travel with the message that names them (SCM_RIGHTS), as many as its kDescriptors
// says. Numbers are in the byte order of the host, which both ends are on. Nothing that a message
// says is trusted: a wrong length, version or number of descriptors ends the connection.
//
// A process:                                        uroced:
//   Hello (+ its published state)            --->
//   or Resume (+ the same, + its claim)      --->
//                                            <---     Welcome (+ the claim of a block), or Refused
//   LinkRequest (+ ring memory, socket)      --->
//                                            --->     LinkOffer (+ the same) to the other process
//                                            <---     LinkAnswer
//   Resolve, Declare, JoinGroup, Listen      --->
//                                            <---     Neighbor, DeclareAnswer, GroupAnswer, ...
//                                            <---     WireSocket (+ the socket), Notice
//   WireDrops                                --->
// `uroce run` sends LeaseRequest, `uroce status` sends StatusRequest, instead of Hello.

namespace uroce::nic::control {

// Opens a process's membership. Carries the memory that the process publishes its state in
// (PublishedState), sealed against writing by others.
struct Hello {
  static constexpr MessageType kType = MessageType::kHello;
  static constexpr size_t kDescriptors = 1;
  uint32_t mtu_bytes;  // 0: the fabric's
  transport::Gid ip;   // zero: the fabric's
};

// Hello of a process that has a block already: uroced was restarted, or the connection was lost.
// Carries the claim of the block, too, which proves that the process has it (BlockClaims).
struct Resume {
  static constexpr MessageType kType = MessageType::kResume;
  static constexpr size_t kDescriptors = 2;
  Block block;
  Hello hello;
};

// Carries the claim of the block, which the process keeps open as long as it uses the block.
struct Welcome {
  static constexpr MessageType kType = MessageType::kWelcome;
  static constexpr size_t kDescriptors = 1;
  Block block;
  uint32_t mtu_bytes;  // of IP packets
  uint8_t has_wire;    // there is a NIC behind uroced; otherwise the fabric ends at this host
  uint8_t wire_is_up;
  transport::MacAddress mac;  // of the NIC; zero if there is none
  // Not 0: processes send to other hosts and receive by UDP sockets of their own (WireSocket).
  uint32_t by_own_sockets;
  uint32_t gid_count;  // 0 if there is no NIC: every process has an address of its own then
  std::array<transport::Gid, kMaxGids> gids;
};

// Ends a connection that cannot be served.
struct Refused {
  static constexpr MessageType kType = MessageType::kRefused;
  static constexpr size_t kDescriptors = 0;
  ErrnoValue error;
  std::array<char, kMaxSentenceBytes> sentence;  // ends with a NUL; says what to do
};

// Asks for a link to the process that has `block` (or to uroced), with the shared memory of its
// rings and one end of a socket pair. The asker keeps the other end, and has side 0.
struct LinkRequest {
  static constexpr MessageType kType = MessageType::kLinkRequest;
  static constexpr size_t kDescriptors = 2;
  Block block;
  // How many LinkOffers the process had received on this connection when it asked: from that uroced
  // knows whether the request crossed an offer of the other process.
  uint32_t offers_received;
};

// Passes the request on to the other process, with its descriptors. The receiver has side 1. The
// offer replaces a link that the receiver has with `block`, and one that it has asked for.
struct LinkOffer {
  static constexpr MessageType kType = MessageType::kLinkOffer;
  static constexpr size_t kDescriptors = 2;
  Block block;
};

// 0: the offer was passed on, or uroced took it. EHOSTUNREACH: no client has that block. EALREADY:
// the request crossed an offer of the other process; the offer was sent before this answer, and is
// used. ENOSPC: too many links.
struct LinkAnswer {
  static constexpr MessageType kType = MessageType::kLinkAnswer;
  static constexpr size_t kDescriptors = 0;
  Block block;
  ErrnoValue error;
};

// Asks for the Ethernet address of a host on the wire.
struct Resolve {
  static constexpr MessageType kType = MessageType::kResolve;
  static constexpr size_t kDescriptors = 0;
  transport::Gid gid;
};

// Answers Resolve. Also sent to every process whenever an address becomes known or changes.
struct Neighbor {
  static constexpr MessageType kType = MessageType::kNeighbor;
  static constexpr size_t kDescriptors = 0;
  transport::Gid gid;
  transport::MacAddress mac;
  uint8_t is_known;
  uint8_t reserved;
};

// Declares that a queue pair of the sender is connected to one beyond the wire. `alternate_gid`:
// the remote address of the path that the connection may migrate to; zero if there is none. From
// then on uroced lets its frames out, and no other process's to the same remote queue pair.
// Replaces an earlier Declare of `local`. If all other members are zero: `local` is ready to
// receive datagrams, which may come from beyond the wire.
struct Declare {
  static constexpr MessageType kType = MessageType::kDeclare;
  static constexpr size_t kDescriptors = 0;
  transport::Qpn local;
  transport::Qpn remote;
  transport::Gid remote_gid;
  transport::Gid alternate_gid{};

  bool IsForDatagrams() const { return remote.value == 0 && remote_gid.IsZero(); }
};

// 0, EBUSY (another process has declared the same remote queue pair), EINVAL (`local` is not of the
// sender, or the remote end is no queue pair of a host), ENOMEM.
struct DeclareAnswer {
  static constexpr MessageType kType = MessageType::kDeclareAnswer;
  static constexpr size_t kDescriptors = 0;
  transport::Qpn local;
  ErrnoValue error;
  uint32_t path_mtu_bytes;  // the longest IP packet that both ways take; 0: unknown
};

// The queue pair was destroyed or reset. Not answered.
struct Forget {
  static constexpr MessageType kType = MessageType::kForget;
  static constexpr size_t kDescriptors = 0;
  transport::Qpn local;
};

// The sender wants datagrams to the multicast group. A process counts its members itself: it sends
// JoinGroup for the first member and LeaveGroup after the last.
struct JoinGroup {
  static constexpr MessageType kType = MessageType::kJoinGroup;
  static constexpr size_t kDescriptors = 0;
  transport::Gid group;
};
struct LeaveGroup {
  static constexpr MessageType kType = MessageType::kLeaveGroup;
  static constexpr size_t kDescriptors = 0;
  transport::Gid group;
};
// ENOSPC: the process or its user has too many groups, or the wire has no room for another.
struct GroupAnswer {
  static constexpr MessageType kType = MessageType::kGroupAnswer;
  static constexpr size_t kDescriptors = 0;
  transport::Gid group;
  ErrnoValue error;
};

// A service of the connection manager at the addresses that a process binds to; see
// PacketPort::Service.
struct ServiceClaim {
  uint64_t service_id;
  transport::Gid address;
  uint64_t only_ipv6;  // 0 or 1

  auto operator<=>(const ServiceClaim&) const = default;
};

// Claims the service. Answered with EADDRINUSE if another process has it, ENOSPC if the sender has
// too many. Replaces an earlier Listen of the same claim, unless there is an error.
struct Listen {
  static constexpr MessageType kType = MessageType::kListen;
  static constexpr size_t kDescriptors = 0;
  ServiceClaim claim;
  uint32_t shares;   // with other processes that share it, too
  uint32_t listens;  // the sender wants connection requests for it
};
// Gives the service up. The answer says that other processes can have it from then on.
struct Unlisten {
  static constexpr MessageType kType = MessageType::kUnlisten;
  static constexpr size_t kDescriptors = 0;
  ServiceClaim claim;
};
struct UnlistenAnswer {
  static constexpr MessageType kType = MessageType::kUnlistenAnswer;
  static constexpr size_t kDescriptors = 0;
  ServiceClaim claim;
};
struct ListenAnswer {
  static constexpr MessageType kType = MessageType::kListenAnswer;
  static constexpr size_t kDescriptors = 0;
  ServiceClaim claim;
  ErrnoValue error;
  uint32_t reserved;
};

// A sentence for the user of a process about a host that the process named (Resolve, Declare), or
// about the way out of this host. Only processes that named a host get it, once in 10 s.
struct Notice {
  static constexpr MessageType kType = MessageType::kNotice;
  static constexpr size_t kDescriptors = 0;
  std::array<char, kMaxSentenceBytes> sentence;  // ends with a NUL; says what to do
};

}  // namespace uroce::nic::control
