// The peer of the tests: opens the port of its first argument and sends every test frame back until
// it is killed. With a number as second argument it sends that many frames when the link is up and
// exits at once.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tests/dpdk_nic/port/dpdk/dpdk_test_support.h"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  uroce::nic::OpenedPort opened = uroce::nic::OpenDpdkPort(argv[1]);
  if (opened.port == nullptr) {
    fprintf(stderr, "%s\n", opened.error.c_str());
    return 1;
  }
  uroce::nic::PacketPort* port = opened.port.get();
  for (uint64_t pass = 0; argc == 2; ++pass) {
    if (pass % 1'000 == 0) port->ServeLink();
    uroce::nic::ReflectOnce(port);
  }

  const uint64_t frames = strtoull(argv[2], nullptr, 10);
  uroce::nic::Traffic traffic(port, 60, 4'224);
  while (!port->link_up()) traffic.Receive();
  while (traffic.sent() < frames) traffic.Send(frames);
  while (!port->BeginSleep()) traffic.Receive();  // until all of it is on the wire
  _exit(0);
}
