#pragma once

#include <dirent.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/control/block_claim.h"
#include "dpdk_nic/control/control_address.h"
#include "tests/dpdk_nic/control/fabric_names.h"

namespace uroce::nic::control {

// How many descriptors this process has open.
inline int OpenDescriptors() {
  DIR* folder = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

// Waits until at most `count` are open: a server closes descriptors on another thread.
inline void AwaitDescriptors(int count) {
  while (OpenDescriptors() > count) usleep(1'000);
}

// A descriptor that NumberOf recognises once, in any process, by `number` (from 1 on).
inline UniqueFd NumberedFd(uint64_t number) {
  UniqueFd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  EXPECT_EQ(eventfd_write(fd.get(), number), 0);
  return fd;
}
// 0 if `fd` is no NumberedFd or was read before.
inline uint64_t NumberOf(const UniqueFd& fd) {
  eventfd_t number;
  return fd && eventfd_read(fd.get(), &number) == 0 ? number : 0;
}

// Whether any process holds the claim of the block.
inline bool IsClaimed(const std::string& fabric, Block block) {
  const UniqueFd folder = OpenFolderOf(fabric);
  return folder && BlockClaims(folder.get()).OwnerOf(block).has_value();
}

// Runs `body` in a child as user `uid`. Returns its result; -1 if it did not return.
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
// Waits up to 30 s, which only a failing test reaches.
inline bool WaitReadable(int fd) {
  pollfd poll_fd{fd, POLLIN, 0};
  return poll(&poll_fd, 1, 30'000) == 1;
}

// A TCP connection over loopback; close() of `slow` waits until `reader` has read what was sent.
struct LingeringSocket {
  UniqueFd slow, reader;

  LingeringSocket() {
    const UniqueFd listener(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t length = sizeof address;
    const int small = 4'096;
    setsockopt(listener.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    EXPECT_EQ(bind(listener.get(), generic, length), 0);
    EXPECT_EQ(listen(listener.get(), 1), 0);
    EXPECT_EQ(getsockname(listener.get(), generic, &length), 0);
    slow.reset(socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_EQ(connect(slow.get(), generic, length), 0);
    reader.reset(accept(listener.get(), nullptr, nullptr));
    const linger wait{1, 3'600};
    EXPECT_EQ(setsockopt(slow.get(), SOL_SOCKET, SO_LINGER, &wait, sizeof wait), 0);
    const std::array<char, 65'536> bytes{};
    while (send(slow.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
    }
  }
};

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
