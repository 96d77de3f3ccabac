#pragma once

namespace uroce::nic {

// A registration of a driver with DPDK's interrupt thread.
struct InterruptRegistration {
  int fd = -1;
  void (*callback)(void* argument) = nullptr;
  void* argument = nullptr;
};

// The registration that the calling thread made last; its fd is -1 if none since the last call.
InterruptRegistration TakeLastInterruptRegistration();

// Withdraws a registration for a driver that forgets to. When it returns, the callback neither runs
// nor will run.
void WithdrawInterrupt(const InterruptRegistration& registration);

}  // namespace uroce::nic
