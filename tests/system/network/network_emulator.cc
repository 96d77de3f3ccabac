// A bottleneck between tap devices, for kernels without netem.
//
//   usage: network_emulator RECEIVER-TAP SENDER-TAP...
//
// Commands come by standard input (emulator.h) and their answers by standard output, after a line
// "ready". It ends with its input. A hundred frames a millisecond are what it carries on one
// processor.

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <exception>
#include <iostream>
#include <string>
#include <tuple>
#include <vector>

#include "tests/system/network/emulator.h"

int main(int argc, char** argv) {
  const std::vector<std::string> taps(argv + 1, argv + argc);
  if (taps.size() < 2) {
    std::cerr << "usage: network_emulator RECEIVER-TAP SENDER-TAP...\n";
    return 2;
  }
  try {
    uroce::network::Emulator emulator(taps);
    // Frames should arrive on time on a busy machine, too, as far as it is permitted.
    prctl(PR_SET_TIMERSLACK, 1);
    const sched_param priority{50};
    std::ignore = sched_setscheduler(0, SCHED_FIFO, &priority);
    std::ignore = mlockall(MCL_CURRENT | MCL_FUTURE);
    std::cout << "ready" << std::endl;
    emulator.Run(STDIN_FILENO, std::cout);
  } catch (const std::exception& error) {
    std::cerr << "network_emulator: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
