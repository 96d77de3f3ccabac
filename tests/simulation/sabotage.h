#pragma once

#include <cstdint>

namespace uroce::transport::simulation {

// Things that go wrong on purpose, so that tests can see the oracles notice (negative controls).
// First those that an application does, to itself or to what its oracles get to see.
enum class Sabotage : uint8_t {
  kNone,
  kLoseCompletion,    // one completion is never handed to the oracle
  kRepeatCompletion,  // one is handed over twice
  kScribble,          // one byte of exposed memory changes
  kScribbleReceived,  // one byte of what a receive brought changes
  kWrongImmediate,
  kLoseEvent,         // an asynchronous event never comes
  kWriteToOldMemory,  // a byte changes where a region was before it moved
};

// What happens to a frame in a way that no receiver can notice by itself. Always to the first frame
// that it can be done to, unless something else is said.
enum class Tampering : uint8_t {
  kNone,
  kFlipPayloadBit,
  kRepeatUnreliable,  // all SENDs of UC and UD that are one packet come twice
  kRightQkey,         // a datagram with the wrong Q_Key gets the right one
  kHopLimit,          // a datagram has another hop limit: a byte of what is received before it
  kLoseDatagrams,     // all of them vanish, and nobody hears of it
};

}  // namespace uroce::transport::simulation
