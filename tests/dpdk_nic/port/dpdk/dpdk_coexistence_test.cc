// A program that itself uses DPDK, from Debian's shared libraries, beside the DPDK in our library.
#include <gtest/gtest.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/dpdk_nic/port/dpdk/dpdk_test_support.h"

namespace uroce::nic {
namespace {

// DPDK can start only once in a process, so each order has a process of its own.
int InOwnProcess(int (*body)()) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

bool StartOwnDpdk() {
  const std::string prefix = "--file-prefix=coexist-" + std::to_string(getpid());
  const char* arguments[] = {
      "test", "--no-huge", "--no-pci",       "-m",          "32",      "--no-shconf",
      "-l",   "0",         "--no-telemetry", "--log-level", "*:error", prefix.c_str()};
  return rte_eal_init(std::size(arguments), const_cast<char**>(arguments)) >= 0;
}

// The application's mempool has the name of ours: the two DPDKs must not share names.
bool OwnDpdkWorks() {
  rte_mempool* pool = rte_mempool_create("uroce-frames-0", 63, 64, 0, 0, nullptr, nullptr, nullptr,
                                         nullptr, SOCKET_ID_ANY, 0);
  if (pool == nullptr) return false;
  void* object = nullptr;
  if (rte_mempool_get(pool, &object) != 0) return false;
  rte_mempool_put(pool, object);
  return rte_mempool_avail_count(pool) == 63;
}

bool OurPortWorks() {
  OpenedPort ring = OpenDpdkPort("net_ring0");
  if (ring.port == nullptr) {
    fprintf(stderr, "%s\n", ring.error.c_str());
    return false;
  }
  Traffic traffic(ring.port.get(), 60, 4'224);
  traffic.Send(20);
  traffic.Receive();
  return traffic.received() == 20 && traffic.corrupt() == 0;
}

TEST(DpdkCoexistenceTest, ApplicationStartsItsDpdkFirst) {
  EXPECT_EQ(InOwnProcess([] {
              if (!StartOwnDpdk()) return 1;
              if (!OurPortWorks()) return 2;
              if (!OwnDpdkWorks()) return 3;
              return OurPortWorks() ? 0 : 4;
            }),
            0);
}

TEST(DpdkCoexistenceTest, ApplicationStartsItsDpdkLater) {
  EXPECT_EQ(InOwnProcess([] {
              if (!OurPortWorks()) return 1;
              if (!StartOwnDpdk()) return 2;
              if (!OwnDpdkWorks()) return 3;
              return OurPortWorks() ? 0 : 4;
            }),
            0);
}

}  // namespace
}  // namespace uroce::nic
