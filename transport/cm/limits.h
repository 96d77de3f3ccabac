#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/limits.h"

// Every bound of the communication manager. Peers are not trusted: these bounds limit what they can
// make us keep, and for how long.
namespace uroce::transport::cm {

// Connections, listeners, resolutions and connections in timewait together.
inline constexpr uint32_t kMaxIds = 65'536;
// Requests of peers that the user has not answered yet: as many as it has queue pairs for. 16 MB,
// and far from all ids: a flood of requests leaves ids to connect with actively.
inline constexpr uint32_t kMaxHalfOpen = kMaxQps;
// Of these, from one GID: a single peer cannot keep out the others.
inline constexpr uint32_t kMaxHalfOpenPerPeer = kMaxHalfOpen / 2;
// The backlog of a listener that names none.
inline constexpr uint32_t kDefaultBacklog = kMaxHalfOpen;

// MADs that wait to be transmitted: all queue pairs of a process may connect or disconnect at once,
// and a MAD that does not fit is dropped, which takes seconds to repair. 5 MB.
inline constexpr size_t kMaxQueuedMads = kMaxQps;
// Answers that belong to no connection leave room for those that do.
inline constexpr size_t kMaxQueuedRefusals = 256;

// Timeouts that peers choose are exponents of up to 31: 2.4 hours. No CM response takes longer than
// 8.6 s (Linux asks for 4.3 s), no service longer than 69 s (the MRA of rdma_cm on Linux).
inline constexpr uint8_t kMaxPeerResponseTimeout = 21;
inline constexpr uint8_t kMaxPeerServiceTimeout = 24;
// The timewait lasts for a local ACK timeout, into which the peer's ACK delay goes.
inline constexpr uint8_t kMaxTimewait = 21;

}  // namespace uroce::transport::cm
