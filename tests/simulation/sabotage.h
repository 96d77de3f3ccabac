#pragma once

#include <cstdint>

namespace uroce::transport::simulation {

// Faults injected on purpose, so that tests can see the oracles notice them (negative controls).
// These are faults of an application, in its memory or in what its oracles get.
enum class Sabotage : uint8_t {
  kNone,
  kLoseCompletion,    // the oracle misses one completion
  kRepeatCompletion,  // the oracle gets one completion twice
  kScribble,          // one byte of exposed memory changes
  kScribbleReceived,  // one byte of a received message changes
  kWrongImmediate,
  kLoseEvent,         // an asynchronous event is dropped
  kWriteToOldMemory,  // a byte changes in storage that a region left
};

// A change to a frame that no receiver can notice by itself. Applies to the first suitable frame
// only, unless the enumerator says otherwise.
enum class Tampering : uint8_t {
  kNone,
  kFlipPayloadBit,
  kRepeatUnreliable,  // every one-packet SEND of UC and UD arrives twice
  kRightQkey,         // a datagram with the wrong Q_Key gets the right one
  kHopLimit,          // another hop limit: a byte before the received datagram
  kLoseDatagrams,     // every datagram is lost, and the monitor is not told
};

}  // namespace uroce::transport::simulation
