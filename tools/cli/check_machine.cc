#include <fcntl.h>
#include <gnu/libc-version.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "dpdk_nic/base/memory_file.h"
#include "tools/cli/finding.h"

namespace uroce::cli {
namespace {

// An advice of madvise() since Linux 5.14; glibc names it since 2.35.
constexpr int kMadvPopulateWrite = 23;
// The memory of a link, and the open files of a process with a few links.
constexpr off_t kLinkBytes = off_t{4} << 20;
constexpr rlim_t kFewFiles = 64;
constexpr rlim_t kManyFiles = 1'024;

// Why a system call failed with `error`, and what to do.
std::string WhyRefused(const std::string& call, int error) {
  if (error == EPERM || error == EACCES) {
    return call +
           " is forbidden: allow it in the container's seccomp profile, or run with "
           "'--security-opt seccomp=unconfined'";
  }
  if (error == ENOSYS) {
    return call +
           " is not there: use Linux 5.3 or newer, or allow it in the container's seccomp "
           "profile";
  }
  return call + " fails (" + strerror(error) + ")";
}

std::string NameOfContainer() {
  if (getenv("KUBERNETES_SERVICE_HOST") != nullptr) return "a Kubernetes pod";
  if (access("/.dockerenv", F_OK) == 0) return "a Docker container";
  if (access("/run/.containerenv", F_OK) == 0) return "a Podman container";
  if (const char* name = getenv("container")) return std::string("a container (") + name + ")";
  return "";
}

// Whether this is a user namespace: the initial one maps all users to themselves.
bool IsInUserNamespace() {
  std::ifstream map("/proc/self/uid_map");
  unsigned long inside = 0, outside = 0, count = 0;
  if (!(map >> inside >> outside >> count)) return false;
  return inside != 0 || outside != 0 || count != 0xffffffff;
}

}  // namespace

Finding CheckMachine() {
  utsname system{};
  uname(&system);
  const std::string text = std::string(system.machine) + ", " + system.sysname + " " +
                           system.release + ", glibc " + gnu_get_libc_version() + ", " +
                           std::to_string(std::thread::hardware_concurrency()) + " processors";
  if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("popcnt")) {
    return {Verdict::kProblem, "machine",
            text +
                ", but no SSE4.2: use a machine or an emulated processor of the year 2009 or "
                "later (qemu: '-cpu Nehalem')"};
  }
  if (std::thread::hardware_concurrency() == 1) {
    return {Verdict::kNote, "machine",
            text + ": programs that poll get in each other's way on one processor"};
  }
  return {Verdict::kOk, "machine", text};
}

Finding CheckContainer() {
  const std::string name = NameOfContainer();
  std::string text = name.empty() ? "none" : name;
  text += geteuid() == 0 ? ", as root" : ", as user " + std::to_string(geteuid());
  if (IsInUserNamespace()) text += " of a user namespace";
  if (access("/proc/self/exe", F_OK) != 0) {
    return {Verdict::kNote, "container", text + ", /proc is not mounted: mount it"};
  }
  return {Verdict::kOk, "container", text};
}

Finding CheckSystemCalls() {
  const int memory = memfd_create("uroce-check", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory < 0) return {Verdict::kProblem, "system calls", WhyRefused("memfd_create", errno)};
  close(memory);
  const long process = syscall(SYS_pidfd_open, getpid(), 0);
  if (process < 0) return {Verdict::kProblem, "system calls", WhyRefused("pidfd_open", errno)};
  close(static_cast<int>(process));
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool is_populated = madvise(page, 4096, kMadvPopulateWrite) == 0;
  const int error = errno;
  munmap(page, 4096);
  if (is_populated) {
    return {Verdict::kOk, "system calls", "memfd_create, pidfd_open and madvise are allowed"};
  }
  if (error == EINVAL) {
    return {Verdict::kNote, "system calls",
            "madvise has no MADV_POPULATE_WRITE: Linux 5.14 and newer map a link's memory faster"};
  }
  return {Verdict::kProblem, "system calls", WhyRefused("madvise", error)};
}

Finding CheckSharedMemory() {
  const int memory = memfd_create("uroce-check", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory < 0) return {Verdict::kProblem, "shared memory", WhyRefused("memfd_create", errno)};
  const int error =
      nic::GrowMemoryFile(kLinkBytes, [memory] { return posix_fallocate(memory, 0, kLinkBytes); });
  close(memory);
  if (error != 0) {
    return {Verdict::kProblem, "shared memory",
            "memory for a link cannot be had: " + nic::WhyNoSharedMemory(error)};
  }
  return {Verdict::kOk, "shared memory", "there is room for a link; /dev/shm is not used"};
}

Finding CheckLimits() {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const std::string text =
      std::to_string(files.rlim_cur) + " open files, one a link; no memory is locked";
  if (files.rlim_cur < kFewFiles) {
    return {Verdict::kProblem, "limits", text + ": allow more files with 'ulimit -n 1024'"};
  }
  if (files.rlim_cur < kManyFiles) {
    return {Verdict::kNote, "limits", text + ": 'ulimit -n 4096' allows more"};
  }
  return {Verdict::kOk, "limits", text};
}

}  // namespace uroce::cli
