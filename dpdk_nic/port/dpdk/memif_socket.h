#pragma once

#include <string>

#include "dpdk_nic/port/devargs.h"
#include "dpdk_nic/port/dpdk/eal/interrupt_registration.h"

namespace uroce::nic {

// Sees to it that a memif port can use its socket: the directory is there, and what a killed server
// left behind is removed (only by a server, only if the socket is ours and has no listener).
// Returns false with a sentence in `*error` if the path is of no use.
bool PrepareMemifSocket(const Devargs& devargs, std::string* error);

// The socket on which a memif server listens. The driver never closes it, and leaves it with the
// interrupt thread together with a pointer to memory that it frees.
class MemifListener {
 public:
  // Of the server that the calling thread opened just now.
  MemifListener() : registration_(TakeLastInterruptRegistration()) {}
  // Before the device is removed.
  ~MemifListener();
  MemifListener(const MemifListener&) = delete;
  MemifListener& operator=(const MemifListener&) = delete;

 private:
  const InterruptRegistration registration_;
};

}  // namespace uroce::nic
