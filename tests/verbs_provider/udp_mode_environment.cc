// Makes the test that links it run in direct mode over the UDP sockets of a network namespace of
// its own, whose only interface is the loopback one. UROCE_TEST_NAMESPACE is not set if the
// namespace cannot be created.
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "dpdk_nic/device/device_config.h"

namespace uroce::verbs::testing {
namespace {

// Runs before main() restarts the program with the preload library, and not again after that.
__attribute__((constructor)) void ChooseUdpSockets() {
  if (getenv(nic::kPortVariable) != nullptr) return;
  const bool is_alone = unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
  if (!is_alone) return;
  setenv("UROCE_TEST_NAMESPACE", "1", 0);
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq loopback{};
  std::strcpy(loopback.ifr_name, "lo");
  loopback.ifr_flags = IFF_UP;
  ioctl(fd, SIOCSIFFLAGS, &loopback);
  close(fd);
  setenv(nic::kPortVariable, "udp,address=127.0.0.1", 0);
  setenv(nic::kFabricVariable, "unused", 0);
}

}  // namespace
}  // namespace uroce::verbs::testing
