// Frames per second of a port alone, sent by one process and received by another:
//   dpdk_port_benchmark DEVARGS send|receive BYTES SECONDS
// Start the receiver first, in the same working directory (bazel run sets it for one of them only).
#include <sched.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/dpdk_nic/port/dpdk/dpdk_test_support.h"

namespace {

using Clock = std::chrono::steady_clock;

// Calls `burst` again and again for about a second. Returns the frames per second.
template <class Burst>
double Rate(Burst&& burst) {
  uint64_t frames = 0;
  const auto start = Clock::now();
  std::chrono::duration<double> elapsed{};
  do {
    for (int i = 0; i < 100; ++i) {
      const uint64_t moved = burst();
      if (moved == 0) sched_yield();
      frames += moved;
    }
    elapsed = Clock::now() - start;
  } while (elapsed.count() < 1);
  return static_cast<double>(frames) / elapsed.count();
}

uint64_t Send(uroce::nic::PacketPort* port, size_t bytes) {
  uint64_t frames = 0;
  for (auto out = port->AcquireTransmit(uroce::transport::Route::kWire);
       !out.empty() && frames < 32; out = port->AcquireTransmit(uroce::transport::Route::kWire)) {
    memset(out.data(), 0x5a, 64);
    port->CommitTransmit(bytes);
    ++frames;
  }
  port->Flush();
  return frames;
}

uint64_t Receive(uroce::nic::PacketPort* port) {
  uint64_t frames = 0;
  for (auto in = port->Receive().bytes; !in.empty() && frames < 32; in = port->Receive().bytes) {
    port->ReleaseReceived();
    ++frames;
  }
  return frames;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: %s DEVARGS send|receive BYTES SECONDS\n", argv[0]);
    return 2;
  }
  uroce::nic::OpenedPort opened = uroce::nic::OpenDpdkPort(argv[1]);
  if (opened.port == nullptr) {
    fprintf(stderr, "%s\n", opened.error.c_str());
    return 1;
  }
  uroce::nic::PacketPort* port = opened.port.get();
  const bool sends = strcmp(argv[2], "send") == 0;
  const auto bytes = static_cast<size_t>(atoi(argv[3]));
  uroce::nic::PollUntil([&] {
    Receive(port);
    return port->link_up();
  });
  for (int second = 0; second < atoi(argv[4]); ++second) {
    const double rate = Rate([&] { return sends ? Send(port, bytes) : Receive(port); });
    printf("%s %zu B: %.2f Mframes/s, %.1f Gbit/s\n", argv[2], bytes, rate / 1e6,
           rate * static_cast<double>(bytes) * 8 / 1e9);
  }
  return 0;
}
