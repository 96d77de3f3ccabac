// The findings of `uroce check`, one line each.
#pragma once

#include <string>
#include <vector>

namespace uroce::cli {

enum class Verdict {
  kOk,
  kNote,     // works, but with less than there could be
  kProblem,  // programs will not run
};

struct Finding {
  Verdict verdict;
  const char* subject;  // what was checked: one or two words
  std::string text;     // the finding, without full stop; behind a colon what to do about it
};

// The machine and its limits, each by trying it out or reading what the kernel says.
Finding CheckMachine();
Finding CheckContainer();
// The system calls that containers' seccomp profiles and old kernels lack.
Finding CheckSystemCalls();
Finding CheckSharedMemory();
Finding CheckLimits();

// The libraries of the RDMA programs: loaded into this process.
Finding CheckLibibverbs();
Finding CheckLibrdmacm();
// Opens the device as a program would: in a process of its own, with the libraries that were built
// together with this executable, on `fabric`.
Finding CheckDevice(const std::string& fabric);
// Runs in that process: prints the result on stdout, and returns the exit status.
int OpenDeviceAsProgram();

// The fabric, its uroced, and the way out of this host.
Finding CheckFabric(const std::string& fabric);
Finding CheckUplink(const std::string& fabric);

}  // namespace uroce::cli
