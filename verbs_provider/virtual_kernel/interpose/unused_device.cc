// If a program that `uroce run` started ends without libibverbs, it has used no RDMA device, and
// one sentence tells its user. Not if it has started other programs, as shells and launchers do,
// and not if it has looked at the device (`ls`, `rdma link`).

#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verbs_provider/virtual_kernel/device/device.h"
#include "verbs_provider/virtual_kernel/device/provider_loader.h"

namespace uroce::verbs::virtual_kernel {
namespace {

// Set by `uroce run`: the id of the process that the command runs in, whatever it executes there.
constexpr char kCommandVariable[] = "UROCE_COMMAND_PID";

bool IsTheCommand() {
  const char* const pid = secure_getenv(kCommandVariable);
  return pid != nullptr && strtol(pid, nullptr, 10) == getpid();
}

struct Children {
  bool are_there;
  long page_faults;  // of those that were waited for

  static Children Now() {
    siginfo_t child;
    rusage waited_for{};
    getrusage(RUSAGE_CHILDREN, &waited_for);
    return {waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) == 0, waited_for.ru_minflt};
  }
};

// The process may have had children before it executed this program: `uroce run` starts uroced.
constinit Children at_start = {};

[[gnu::constructor]] void LookAtChildren() {
  if (IsTheCommand()) at_start = Children::Now();
}

bool HasStartedPrograms() {
  const Children now = Children::Now();
  return now.page_faults != at_start.page_faults || (now.are_there && !at_start.are_there);
}

// Whether the process has a library that loads libibverbs itself when the program asks for RDMA.
bool HasLibraryThatLoadsLibibverbs() {
  const auto loads = [](dl_phdr_info* object, size_t /*bytes*/, void* /*unused*/) {
    for (const char* const name : {"/libucs.so", "/libfabric.so", "/libmpi.so", "/libmpich.so"}) {
      if (strstr(object->dlpi_name, name) != nullptr) return 1;
    }
    return 0;
  };
  return dl_iterate_phdr(loads, nullptr) != 0;
}

// dlmopen() loads it so that the process's other libraries do not see it.
bool HasLibibverbsOfItsOwn() {
  FILE* const maps = fopen("/proc/self/maps", "re");
  if (maps == nullptr) return false;
  char line[4'200];
  bool found = false;
  while (!found && fgets(line, sizeof line, maps) != nullptr) {
    found = strstr(line, "/libibverbs.so") != nullptr;
  }
  fclose(maps);
  return found;
}

[[gnu::destructor]] void SayThatNoDeviceWasUsed() {
  if (!IsTheCommand() || DeviceWasSeen() || HasLibibverbs() || HasStartedPrograms()) return;
  if (HasLibibverbsOfItsOwn()) {
    dprintf(STDERR_FILENO,
            "uroce run: '%s' has loaded libibverbs into a namespace of its own by dlmopen(), where "
            "there is no uroce0: load it by dlopen().\n",
            program_invocation_short_name);
  } else if (!HasLibraryThatLoadsLibibverbs()) {
    dprintf(STDERR_FILENO,
            "uroce run: '%s' has ended without loading libibverbs, so that it used no RDMA device: "
            "link it with the shared libibverbs if it was to.\n",
            program_invocation_short_name);
  }
}

}  // namespace
}  // namespace uroce::verbs::virtual_kernel
