#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "transport/ids.h"
#include "transport/limits.h"

// Definitions that all messages of uroced's control socket share.

namespace uroce::nic::control {

// Part of the name of a fabric's folder and of every header: programs with different versions never
// meet.
inline constexpr uint16_t kProtocolVersion = 15;

inline constexpr uint32_t kMaxBodyBytes = 5'120;
inline constexpr size_t kMaxDescriptors = 2;  // of one message
inline constexpr size_t kMaxGids = 256;
inline constexpr size_t kMaxSentenceBytes = 256;
inline constexpr size_t kMaxNameBytes = 64;

enum class MessageType : uint16_t {
  // from a process
  kHello = 1,
  kLinkRequest = 2,
  kResolve = 3,
  kDeclare = 4,
  kForget = 5,
  kJoinGroup = 6,
  kLeaveGroup = 7,
  kListen = 8,
  kUnlisten = 9,
  kLeaseRequest = 10,
  kStatusRequest = 11,
  kResume = 12,
  kWireDrops = 13,
  kOpenXrcDomain = 14,
  kCloseXrcDomain = 15,
  // from uroced
  kWelcome = 32,
  kRefused = 33,
  kLinkAnswer = 34,
  kLinkOffer = 35,
  kNeighbor = 36,
  kDeclareAnswer = 37,
  kGroupAnswer = 38,
  kListenAnswer = 39,
  kPortState = 40,
  kLeaseGranted = 41,
  kStatusDaemon = 42,
  kStatusClient = 43,
  kStatusLink = 44,
  kStatusEnd = 45,
  kUnlistenAnswer = 46,
  kNotice = 47,
  kWireSocket = 48,
  kAddresses = 49,
  kXrcDomainAnswer = 50,
  kXrcDomainClosed = 51,
};

struct MessageHeader {
  uint32_t bytes;
  uint16_t version;
  MessageType type;
};
static_assert(sizeof(MessageHeader) == 8);

// A block of kMaxQps QPNs names a process of the fabric: QPN / kMaxQps. Block 0 is not assigned: as
// the other end of a link it stands for uroced, the way to the wire.
using Block = uint32_t;
inline constexpr Block kSwitchBlock = 0;
// The blocks that processes may have. The very last block has kMulticastQpn in it.
inline constexpr Block kFirstBlock = kSwitchBlock + 1;
inline constexpr Block kLastBlock = (transport::kMaxQpn + 1) / transport::kMaxQps - 2;

// An errno value in a message: the one that verbs would return, 0 for success.
using ErrnoValue = int32_t;

template <class T>
concept Message = std::is_trivially_copyable_v<T> && sizeof(T) <= kMaxBodyBytes&& T::kDescriptors
                  <= kMaxDescriptors&& requires {
  T::kType;
};

}  // namespace uroce::nic::control
