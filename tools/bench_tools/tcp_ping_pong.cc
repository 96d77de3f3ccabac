// A TCP ping-pong on loopback, the counterpart of ib_send_lat: two processes on two cpus send 2
// bytes back and forth. Prints "<p50> <p99>", half of a round trip in microseconds.
//
//   tcp_ping_pong blocking     both sleep in recv()
//   tcp_ping_pong spinning     both ask again and again, as ib_send_lat polls its CQ

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/bench_tools/cpus.h"

namespace uroce::bench {
namespace {

constexpr int kExitUsage = 2;
constexpr size_t kMessageBytes = 2;
constexpr int kWarmUp = 1000;
constexpr int kRoundTrips = 20000;

int Checked(int result, const char* call) {
  if (result < 0) throw std::runtime_error(std::string(call) + ": " + std::strerror(errno));
  return result;
}

void SetNoDelay(int fd) {
  const int enable = 1;
  Checked(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &enable, sizeof(enable)), "setsockopt");
}

void Send(int fd) {
  const char message[kMessageBytes] = {};
  if (Checked(static_cast<int>(send(fd, message, sizeof(message), MSG_NOSIGNAL)), "send") !=
      sizeof(message)) {
    throw std::runtime_error("a short send");
  }
}

void Receive(int fd, bool spinning) {
  char message[kMessageBytes];
  size_t received = 0;
  while (received < sizeof(message)) {
    const ssize_t n =
        recv(fd, message + received, sizeof(message) - received, spinning ? MSG_DONTWAIT : 0);
    if (n < 0 && errno == EAGAIN) {
      sched_yield();  // As uroce does: without it, two spinning ends on one cpu take for ever.
      continue;
    }
    if (Checked(static_cast<int>(n), "recv") == 0) throw std::runtime_error("the peer is gone");
    received += static_cast<size_t>(n);
  }
}

// A listening socket on loopback; its port is the kernel's choice.
int Listen(sockaddr_in* address) {
  const int fd = Checked(socket(AF_INET, SOCK_STREAM, 0), "socket");
  address->sin_family = AF_INET;
  address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address->sin_port = 0;
  socklen_t length = sizeof(*address);
  Checked(bind(fd, reinterpret_cast<sockaddr*>(address), length), "bind");
  Checked(listen(fd, 1), "listen");
  Checked(getsockname(fd, reinterpret_cast<sockaddr*>(address), &length), "getsockname");
  return fd;
}

void Echo(const sockaddr_in& address, bool spinning, int cpu) {
  PinTo(cpu);
  const int fd = Checked(socket(AF_INET, SOCK_STREAM, 0), "socket");
  Checked(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), "connect");
  SetNoDelay(fd);
  for (int i = 0; i < kWarmUp + kRoundTrips; ++i) {
    Receive(fd, spinning);
    Send(fd);
  }
}

// Returns half of every round trip in microseconds, sorted.
std::vector<double> Measure(int listener, bool spinning, int cpu) {
  using Clock = std::chrono::steady_clock;
  PinTo(cpu);
  const int fd = Checked(accept(listener, nullptr, nullptr), "accept");
  SetNoDelay(fd);
  std::vector<double> halves;
  for (int i = 0; i < kWarmUp + kRoundTrips; ++i) {
    const Clock::time_point start = Clock::now();
    Send(fd);
    Receive(fd, spinning);
    const std::chrono::duration<double, std::micro> elapsed = Clock::now() - start;
    if (i >= kWarmUp) halves.push_back(elapsed.count() / 2);
  }
  std::sort(halves.begin(), halves.end());
  return halves;
}

void Main(bool spinning) {
  const std::vector<int> cpus = AllowedCpus();
  sockaddr_in address{};
  const int listener = Listen(&address);
  const pid_t child = Checked(fork(), "fork");
  if (child == 0) {
    Echo(address, spinning, cpus.back());
    _exit(EXIT_SUCCESS);
  }
  const std::vector<double> halves = Measure(listener, spinning, cpus.front());
  Checked(waitpid(child, nullptr, 0), "waitpid");
  std::printf("%.2f %.2f\n", halves[halves.size() / 2], halves[halves.size() * 99 / 100]);
}

}  // namespace
}  // namespace uroce::bench

int main(int argc, char** argv) {
  const std::string mode = argc == 2 ? argv[1] : "";
  if (mode != "blocking" && mode != "spinning") {
    std::fprintf(stderr, "usage: tcp_ping_pong blocking|spinning\n");
    return uroce::bench::kExitUsage;
  }
  try {
    uroce::bench::Main(mode == "spinning");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tcp_ping_pong: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
