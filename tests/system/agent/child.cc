#include "tests/system/agent/child.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>

#include "tests/system/agent/connection.h"

namespace agent {
namespace {

using system_test::Fail;

constexpr uint8_t kValue = 77;
constexpr uint32_t kBytes = 100'000;
constexpr uint8_t kTimeout = 18;  // 1 s
constexpr uint8_t kRetryCount = 7;

enum Side { kParent, kChild };

// The parent and the child exchange messages over a pair of sockets.
template <typename T>
void Tell(int socket, const T& value) {
  if (send(socket, &value, sizeof(value), MSG_NOSIGNAL) != ssize_t{sizeof(value)}) {
    Fail("send", errno);
  }
}

template <typename T>
T Hear(int socket) {
  T value;
  if (recv(socket, &value, sizeof(value), MSG_WAITALL) != ssize_t{sizeof(value)}) {
    throw std::runtime_error("the other process of the fork is gone");
  }
  return value;
}

void Connect(Connection* connection, const system_test::Device& device, int socket) {
  Tell(socket, connection->address());
  const auto peer = Hear<Address>(socket);
  connection->Connect(peer, {device.active_mtu(), kTimeout, kRetryCount});
  Tell(socket, '.');  // The peer may send now.
  Hear<char>(socket);
}

int WriteToParent(uint8_t gid_index, int socket) {
  try {
    const system_test::Device device(gid_index);
    Connection connection(device);
    Connect(&connection, device, socket);
    const Outcome outcome = connection.Write(kValue, kBytes);
    Tell(socket, outcome.status);
    const bool is_right = Hear<bool>(socket);
    return outcome.status == IBV_WC_SUCCESS && is_right ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "agent: in the child: %s\n", error.what());
    return EXIT_FAILURE;
  }
}

}  // namespace

int ExitStatusOf(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child) Fail("waitpid", errno);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int ExchangeWithChild(const system_test::Device& parents_device) {
  std::array<int, 2> sockets;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) {
    Fail("socketpair", errno);
  }
  const pid_t child = fork();
  if (child < 0) Fail("fork", errno);
  close(sockets[child == 0 ? kParent : kChild]);
  if (child == 0) {
    // Ends like an ordinary program, with every destructor and exit handler.
    std::exit(WriteToParent(parents_device.gid_index(), sockets[kChild]));
  }
  {
    Connection connection(parents_device);
    Connect(&connection, parents_device, sockets[kParent]);
    Hear<ibv_wc_status>(sockets[kParent]);
    Tell(sockets[kParent], connection.CountLeading(kValue) == kBytes);
  }
  close(sockets[kParent]);
  return ExitStatusOf(child);
}

}  // namespace agent
