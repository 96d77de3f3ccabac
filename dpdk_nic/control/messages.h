#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "dpdk_nic/control/protocol.h"
#include "transport/ids.h"

// What uroced and the processes of its fabric say to each other, over a Unix stream socket.
//
//   MessageHeader | body        `bytes` counts the body; a body has exactly the size of its struct
//
// Descriptors travel with the message that names them (SCM_RIGHTS), as many as its kDescriptors
// says. Numbers are in the byte order of the host, as both ends are on it. Nothing a message says
// is trusted: a length, a version or a number of descriptors that is not right ends the connection.
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
// `uroce run` says LeaseRequest, `uroce status` says StatusRequest, instead of Hello.

namespace uroce::nic::control {

// Opens a process's membership. With it comes the memory that it publishes its state in
// (PublishedState), sealed against writing by others.
struct Hello {
  static constexpr MessageType kType = MessageType::kHello;
  static constexpr size_t kDescriptors = 1;
  uint32_t mtu_bytes;  // 0: the fabric's
  transport::Gid ip;   // zero: the fabric's
};

// Hello of a process that has a block already: uroced was started anew, or the connection was lost.
// Its claim (BlockClaims) comes with it, as that proves it.
struct Resume {
  static constexpr MessageType kType = MessageType::kResume;
  static constexpr size_t kDescriptors = 2;
  Block block;
  Hello hello;
};

// With the claim of the block, to be kept open for as long as the block is used.
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

// The end of a connection that cannot be served.
struct Refused {
  static constexpr MessageType kType = MessageType::kRefused;
  static constexpr size_t kDescriptors = 0;
  ErrnoValue error;
  std::array<char, kMaxSentenceBytes> sentence;  // ends with a NUL; says what to do
};

// A shared-memory link to the process that has `block` (or to uroced). The descriptors: the memory
// of its rings, and one end of a socket pair whose other end the asker keeps. The asker has side 0.
struct LinkRequest {
  static constexpr MessageType kType = MessageType::kLinkRequest;
  static constexpr size_t kDescriptors = 2;
  Block block;
  // How many LinkOffers this connection had brought when the process asked: by that uroced knows a
  // request that crossed an offer of the other process.
  uint32_t offers_received;
};

// To the process that is to be linked, with the descriptors of the request. It has side 1. A link
// that it has with `block` already is replaced, and so is one that it has asked for.
struct LinkOffer {
  static constexpr MessageType kType = MessageType::kLinkOffer;
  static constexpr size_t kDescriptors = 2;
  Block block;
};

// 0: the offer was passed on, or uroced took it. EHOSTUNREACH: no client has that block. EALREADY:
// the request crossed an offer of the other process, which was sent before this answer, and is
// used. ENOSPC: the limit of links.
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

// The answer, and again to every process whenever an address becomes known or changes.
struct Neighbor {
  static constexpr MessageType kType = MessageType::kNeighbor;
  static constexpr size_t kDescriptors = 0;
  transport::Gid gid;
  transport::MacAddress mac;
  uint8_t is_known;
  uint8_t reserved;
};

// A queue pair of the sender is connected to one beyond the wire, which may have a second address:
// that of the path that the connection may migrate to; zero if there is none. From then on uroced
// lets its frames out, and no other process's to the same remote queue pair. Replaces what was
// declared for `local`. Or it is ready to receive datagrams, which may come from beyond the wire:
// then the other members are zero.
struct Declare {
  static constexpr MessageType kType = MessageType::kDeclare;
  static constexpr size_t kDescriptors = 0;
  transport::Qpn local;
  transport::Qpn remote;
  transport::Gid remote_gid;
  transport::Gid alternate_gid{};

  bool IsForDatagrams() const { return remote.value == 0 && remote_gid.IsZero(); }
};

// 0, EBUSY (another process has declared that it is connected to it), EINVAL (not a queue pair of
// the sender), ENOSPC.
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

// Datagrams to the multicast group are wanted. Members are counted by the process itself: these two
// are said at the first member and after the last.
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
// ENOSPC: the process or its user has too many, or the wire has no room for another.
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

// The process has the service. Answered with EADDRINUSE if another process has it, ENOSPC if it has
// too many. Replaces what was said of the same claim, unless there is an error.
struct Listen {
  static constexpr MessageType kType = MessageType::kListen;
  static constexpr size_t kDescriptors = 0;
  ServiceClaim claim;
  uint32_t shares;   // with other processes that say the same
  uint32_t listens;  // connection requests for it are wanted
};
// Answered, as the service is free for other processes from then on.
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

// What the user of a process is to know of a host that it named (Resolve, Declare), or of the way
// out of this host. Only a process that named one is told, and not the same again for 10 s.
struct Notice {
  static constexpr MessageType kType = MessageType::kNotice;
  static constexpr size_t kDescriptors = 0;
  std::array<char, kMaxSentenceBytes> sentence;  // ends with a NUL; says what to do
};

}  // namespace uroce::nic::control
