// Direct mode from end to end: two processes, each with a device that carries a DPDK port of its
// own, and net_memif between them.

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/device/device.h"
#include "tests/dpdk_nic/engine/engine_host.h"

namespace uroce::nic {
namespace {

using transport::CompletionStatus;
using transport::Gid;
using transport::SendOpcode;
using transport::Status;

constexpr char kLibrary[] = "dpdk_nic/port/dpdk/liburoce-dpdk.so";  // in the test's runfiles
constexpr uint32_t kBytes = 200'000;

// Not in TEST_TMPDIR: a socket's path has at most 107 characters.
std::string SocketPath() { return "/tmp/uroce-test-memif-" + std::to_string(getpid()); }

DeviceConfig ConfigFor(const std::string& role, const std::string& path, const Gid& ip) {
  DeviceConfig config;
  config.dpdk_library = kLibrary;
  config.port_devargs = "net_memif0,role=" + role + ",socket=" + path;
  config.ip = ip;
  return config;
}

// Exchanges addresses over a socket, resolves the address of the other end and connects, as
// programs do.
bool Meet(EngineHost& host, int socket) {
  const ConnectionInfo own = host.info();
  ConnectionInfo peer;
  if (write(socket, &own, sizeof own) != sizeof own) return false;
  if (read(socket, &peer, sizeof peer) != sizeof peer) return false;
  const auto mac = host.engine().ResolveNeighbor(peer.gid, transport::Milliseconds(1'000));
  if (!mac || *mac != peer.mac) return false;
  host.Connect(peer);
  char ready = 'r';
  return write(socket, &ready, 1) == 1 && read(socket, &ready, 1) == 1;
}

// The passive end: never polls once it is connected.
int RunPassiveEnd(const DeviceConfig& config, int socket) {
  const auto device = Device::Open(config, {});
  if (!device.ok()) return 1;
  EngineHost host(device.value()->engines().first());
  memset(host.memory().data() + kBytes, 0x5a, kBytes);
  host.Publish();
  if (!Meet(host, socket)) return 2;
  char done;
  if (read(socket, &done, 1) != 1) return 3;
  for (size_t i = 0; i < kBytes; ++i) {
    if (host.memory()[i] != 0xa5) return 4;
  }
  return 0;
}

class DirectModeTest : public ::testing::TestWithParam<const char*> {};

TEST_P(DirectModeTest, TwoDevicesTalkOverMemif) {
  const std::string path = SocketPath();
  const bool ipv6 = std::string(GetParam()) == "IPv6";
  Gid server_ip = Gid::FromIpv4({10, 0, 0, 1}), client_ip = Gid::FromIpv4({10, 0, 0, 2});
  if (ipv6) {
    server_ip = {{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
    client_ip = {{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
  }
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(sockets[0]);
    _exit(RunPassiveEnd(ConfigFor("client", path, client_ip), sockets[1]));
  }
  const UniqueFd socket(sockets[0]);
  close(sockets[1]);

  // DPDK can start only once in a process, so this end gets a process of its own, too.
  const pid_t active = fork();
  if (active == 0) {
    const auto device = Device::Open(ConfigFor("server", path, server_ip), {});
    if (!device.ok()) {
      fprintf(stderr, "%s\n", device.error().c_str());
      _exit(1);
    }
    EngineHost host(device.value()->engines().first());
    memset(host.memory().data(), 0xa5, kBytes);
    host.Publish();
    if (!Meet(host, socket.get())) _exit(2);
    if (host.Post(SendOpcode::kRdmaWrite, 0, kBytes) != Status::kOk) _exit(3);
    if (host.Poll(1)[0].status != CompletionStatus::kSuccess) _exit(4);
    if (host.Post(SendOpcode::kRdmaRead, kBytes, kBytes) != Status::kOk) _exit(5);
    if (host.Poll(1)[0].status != CompletionStatus::kSuccess) _exit(6);
    if (host.memory()[kBytes] != 0x5a || host.memory()[2 * kBytes - 1] != 0x5a) _exit(7);
    const char done = 'd';
    _exit(write(socket.get(), &done, 1) == 1 ? 0 : 8);
  }
  int status;
  ASSERT_EQ(waitpid(active, &status, 0), active);
  EXPECT_EQ(status, 0) << "exit status " << WEXITSTATUS(status);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "exit status " << WEXITSTATUS(status);
  unlink(path.c_str());
}
INSTANTIATE_TEST_SUITE_P(EitherIpVersion, DirectModeTest, ::testing::Values("IPv4", "IPv6"),
                         [](const auto& name) { return name.param; });

}  // namespace
}  // namespace uroce::nic
