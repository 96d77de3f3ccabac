#pragma once

#include <string>

#include "dpdk_nic/port/devargs.h"
#include "dpdk_nic/port/dpdk/eal/interrupt_registration.h"

namespace uroce::nic {

// Prepares the socket of a memif port: checks that the directory is there, and removes what a
// killed server left behind (only for a server, only if the socket is ours and has no listener).
// Returns false with a sentence in `*error` if the path cannot be used.
bool PrepareMemifSocket(const Devargs& devargs, std::string* error);

// The socket on which a memif server listens. The driver never closes the socket, and leaves it
// with the interrupt thread together with a pointer to memory that the driver frees.
class MemifListener {
 public:
  // For the server that the calling thread opened just now.
  MemifListener() : registration_(TakeLastInterruptRegistration()) {}
  // To be called before the device is removed.
  ~MemifListener();
  MemifListener(const MemifListener&) = delete;
  MemifListener& operator=(const MemifListener&) = delete;

 private:
  const InterruptRegistration registration_;
};

}  // namespace uroce::nic
