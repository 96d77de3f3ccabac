#pragma once

#include <dirent.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/control/block_claim.h"
#include "dpdk_nic/control/control_address.h"

namespace uroce::nic::control {

// The name of a fabric that no other test, and no other run of this one, uses.
inline std::string UniqueFabricName() {
  static std::atomic<int> count = 0;
  return "test-" + std::to_string(getpid()) + "-" + std::to_string(count++);
}

// How many descriptors this process has open.
inline int OpenDescriptors() {
  DIR* folder = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

// Waits until no more than so many are open: a server closes what it was sent on another thread.
inline void AwaitDescriptors(int count) {
  while (OpenDescriptors() > count) usleep(1'000);
}

// A descriptor that can be recognised by a number from 1 on, once, wherever it comes out.
inline UniqueFd NumberedFd(uint64_t number) {
  UniqueFd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  EXPECT_EQ(eventfd_write(fd.get(), number), 0);
  return fd;
}
// 0 if it is not such a descriptor.
inline uint64_t NumberOf(const UniqueFd& fd) {
  eventfd_t number;
  return fd && eventfd_read(fd.get(), &number) == 0 ? number : 0;
}

// Whether a process has a claim of the block.
inline bool IsClaimed(const std::string& fabric, Block block) {
  const UniqueFd folder = OpenFolderOf(fabric);
  return folder && BlockClaims(folder.get()).OwnerOf(block).has_value();
}

// What `body` returns, run by a child that is another user; -1 if it did not return.
inline constexpr uid_t kNobodyUid = 65'534;
template <class Body>
int RunAs(uid_t uid, const Body& body) {
  const pid_t child = fork();
  if (child == 0) _exit(setresuid(uid, uid, uid) == 0 ? body() : 99);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

inline bool IsReadable(int fd) {
  pollfd poll_fd{fd, POLLIN, 0};
  return poll(&poll_fd, 1, 0) == 1;
}
// Only a test that fails waits as long as this.
inline bool WaitReadable(int fd) {
  pollfd poll_fd{fd, POLLIN, 0};
  return poll(&poll_fd, 1, 30'000) == 1;
}

struct SocketPair {
  UniqueFd a, b;

  SocketPair() {
    std::array<int, 2> fds;
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()), 0);
    a.reset(fds[0]);
    b.reset(fds[1]);
  }
};

}  // namespace uroce::nic::control
