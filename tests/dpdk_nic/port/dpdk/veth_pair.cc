#include "tests/dpdk_nic/port/dpdk/veth_pair.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace uroce::nic {
namespace {

// An unprivileged user becomes root of a new user namespace where the system allows it.
bool EnterNetworkNamespace(bool* in_user_namespace) {
  if (unshare(CLONE_NEWNET) == 0) return true;
  *in_user_namespace = true;
  const std::string uid = std::to_string(geteuid());
  const std::string gid = std::to_string(getegid());
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << "0 " + uid + " 1";
  std::ofstream("/proc/self/gid_map") << "0 " + gid + " 1";
  return true;
}

// Forks a process into a namespace of its own and returns when it is there.
pid_t ForkNamespaceProcess() {
  int ready[2];
  if (pipe2(ready, O_CLOEXEC) != 0) return -1;
  const pid_t process = fork();
  if (process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (unshare(CLONE_NEWNET) != 0) _exit(1);
    if (write(ready[1], "", 1) != 1) _exit(1);
    while (true) pause();
  }
  close(ready[1]);
  char byte = 0;
  const bool there = read(ready[0], &byte, 1) == 1;
  close(ready[0]);
  return there ? process : -1;
}

// The kernel lists an IPv6 address a moment before it accepts packets for it.
std::string AwaitLocalRoute(const std::string& address) {
  return "timeout 10 sh -c 'until ip -6 route show table local " + address +
         " | grep -q .; do :; done'";
}

}  // namespace

VethPair::VethPair(uint32_t mtu_bytes) {
  if (!EnterNetworkNamespace(&in_user_namespace_)) {
    problem_ = std::string("network namespaces cannot be made here: ") + strerror(errno);
    return;
  }
  namespace_process_ = ForkNamespaceProcess();
  if (namespace_process_ < 0) {
    problem_ = "a second network namespace cannot be made here";
    return;
  }
  Make(mtu_bytes);
}

void VethPair::Make(uint32_t mtu_bytes) {
  const std::string mtu = std::to_string(mtu_bytes);
  const std::string in_far = "nsenter --net=" + far_namespace() + " ";
  const std::string far = in_far + "ip ";
  const std::string commands[] = {
      "ip link set lo up",
      "ip link add near mtu " + mtu + " type veth peer name far mtu " + mtu +
          " address 02:77:00:00:00:02 netns " + std::to_string(namespace_process_),
      "ip address add 10.77.0.1/24 dev near",
      // Without duplicate address detection it can be used at once.
      "ip address add fd77::1/64 dev near nodad",
      "ip link set near up",
      far + "address add 10.77.0.2/24 dev far",
      far + "address add fd77::2/64 dev far nodad",
      far + "link set far up",
      AwaitLocalRoute("fd77::1"),
      in_far + AwaitLocalRoute("fd77::2"),
  };
  for (const std::string& command : commands) {
    if (system(command.c_str()) == 0) continue;
    problem_ = "failed: " + command;
    return;
  }
}

void VethPair::Run(const std::string& command) { EXPECT_EQ(system(command.c_str()), 0) << command; }

void VethPair::AddAddress(const std::string& address, const std::string& interface) {
  Run("ip address replace " + address + "/64 dev " + interface + " nodad");
  Run(AwaitLocalRoute(address));
}

void VethPair::RunFar(const std::string& command) const {
  Run("nsenter --net=" + far_namespace() + " " + command);
}

VethPair::~VethPair() {
  if (namespace_process_ < 0) return;
  kill(namespace_process_, SIGKILL);
  waitpid(namespace_process_, nullptr, 0);
}

}  // namespace uroce::nic
