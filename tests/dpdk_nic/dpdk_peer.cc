// The other end of the tests' wires: opens the port of its one argument and sends every test frame
// back. Runs until it is killed.
#include <cstdio>

#include "tests/dpdk_nic/dpdk_test_support.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  uroce::nic::OpenedPort opened = uroce::nic::OpenDpdkPort(argv[1]);
  if (opened.port == nullptr) {
    fprintf(stderr, "%s\n", opened.error.c_str());
    return 1;
  }
  while (true) uroce::nic::ReflectOnce(opened.port.get());
}
