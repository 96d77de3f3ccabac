// DPDK must not have side effects on a process that was not written for it.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <getopt.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "tests/dpdk_nic/port/dpdk/dpdk_test_support.h"

namespace uroce::nic {
namespace {

// State that belongs to the process, not to a library in it, as text.
using ProcessState = std::map<std::string, std::string>;

template <class T>
std::string Bytes(const T& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

// The value of `key` in /proc/self/task/TID/status.
std::string ThreadStatus(const std::string& tid, const std::string& key) {
  std::ifstream status("/proc/self/task/" + tid + "/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(key + ":")) continue;
    return line.substr(line.find_first_not_of(" \t", key.size() + 1));
  }
  return "";
}

ProcessState ReadProcessState() {
  ProcessState state;
  for (int resource = 0; resource < RLIM_NLIMITS; ++resource) {
    rlimit limit{};
    getrlimit(static_cast<__rlimit_resource>(resource), &limit);
    state["rlimit " + std::to_string(resource)] =
        std::to_string(limit.rlim_cur) + "/" + std::to_string(limit.rlim_max);
  }
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) != 0) continue;
    state["signal " + std::to_string(signal)] = Bytes(action.sa_handler);
  }
  state["signal mask"] = ThreadStatus(std::to_string(getpid()), "SigBlk");
  cpu_set_t affinity;
  CPU_ZERO(&affinity);
  sched_getaffinity(0, sizeof affinity, &affinity);
  state["affinity"] = Bytes(affinity);
  state["scheduler"] = std::to_string(sched_getscheduler(0));
  state["nice"] = std::to_string(getpriority(PRIO_PROCESS, 0));
  char name[16] = {};
  pthread_getname_np(pthread_self(), name, sizeof name);
  state["name"] = name;
  state["optind"] = std::to_string(optind);
  const mode_t mask_of_files = umask(0);
  umask(mask_of_files);
  state["umask"] = std::to_string(mask_of_files);
  for (char** variable = environ; *variable != nullptr; ++variable) state["env"] += *variable;
  return state;
}

void ExpectSame(const ProcessState& before, const ProcessState& after) {
  for (const auto& [what, value] : before) EXPECT_EQ(after.at(what), value) << what;
}

std::map<int, std::string> OpenDescriptors() {
  std::map<int, std::string> descriptors;
  DIR* directory = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(directory)) {
    const int fd = atoi(entry->d_name);
    if (entry->d_name[0] == '.' || fd == dirfd(directory)) continue;
    char target[256] = {};
    if (readlinkat(dirfd(directory), entry->d_name, target, sizeof target - 1) > 0) {
      descriptors[fd] = target;
    }
  }
  closedir(directory);
  return descriptors;
}

// The number of open sockets, pipes, memfds ...
std::map<std::string, int> KindsOfDescriptors() {
  std::map<std::string, int> kinds;
  for (const auto& [fd, target] : OpenDescriptors()) ++kinds[target.substr(0, target.find('['))];
  return kinds;
}

// Runs `body`. Returns what it wrote to stdout and stderr.
std::string OutputOf(const std::function<void()>& body) {
  const int capture = memfd_create("output", MFD_CLOEXEC);
  const int saved_stdout = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
  const int saved_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
  fflush(nullptr);
  dup2(capture, STDOUT_FILENO);
  dup2(capture, STDERR_FILENO);
  body();
  fflush(nullptr);
  dup2(saved_stdout, STDOUT_FILENO);
  dup2(saved_stderr, STDERR_FILENO);
  std::string output(static_cast<size_t>(lseek(capture, 0, SEEK_END)), '\0');
  EXPECT_EQ(pread(capture, output.data(), output.size(), 0), static_cast<ssize_t>(output.size()));
  for (int fd : {capture, saved_stdout, saved_stderr}) close(fd);
  return output;
}

std::set<std::string> DirectoryEntries(const std::string& path) {
  std::set<std::string> names;
  DIR* directory = opendir(path.c_str());
  if (directory == nullptr) return names;
  while (const dirent* entry = readdir(directory)) names.insert(entry->d_name);
  closedir(directory);
  return names;
}

TEST(DpdkSideEffectsTest, NothingOfTheProcessChanges) {
  rlimit few_descriptors{.rlim_cur = 256, .rlim_max = 4'096};  // EAL alone would raise the limit
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few_descriptors), 0);
  const std::string socket = UniqueSocketPath();
  const ProcessState before = ReadProcessState();
  const auto descriptors_before = OpenDescriptors();
  const auto run_before = DirectoryEntries("/run/dpdk");

  OpenedPort opened;
  const std::string output = OutputOf([&] {
    opened = OpenDpdkPort("net_memif0,role=server,socket=" + socket);
    OpenDpdkPort("net_memif1,role=client,socket=" + socket);  // the same id: fails inside DPDK
    OpenDpdkPort("net_nonsense0");
    OpenDpdkPort("0000:ff:1f.7");
    if (opened.port != nullptr) Traffic(opened.port.get(), 60, 60).Send();
  });
  ASSERT_NE(opened.port, nullptr) << opened.error;
  EXPECT_EQ(output, "");
  ExpectSame(before, ReadProcessState());

  for (const auto& [fd, target] : OpenDescriptors()) {
    if (descriptors_before.contains(fd)) continue;
    EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0) << "fd " << fd << ": " << target;
  }
  const std::string own_tid = std::to_string(getpid());
  for (const std::string& tid : DirectoryEntries("/proc/self/task")) {
    if (tid[0] == '.' || tid == own_tid) continue;
    // All but SIGKILL, SIGSTOP and the two that the C library keeps for itself.
    EXPECT_EQ(ThreadStatus(tid, "SigBlk"), "fffffffe7ffbfeff");
    EXPECT_EQ(ThreadStatus(tid, "Cpus_allowed"), ThreadStatus(own_tid, "Cpus_allowed"));
  }
  EXPECT_EQ(DirectoryEntries("/run/dpdk"), run_before);

  EXPECT_EQ(OutputOf([&] { opened = {}; }), "");
  ExpectSame(before, ReadProcessState());
}

TEST(DpdkSideEffectsTest, ClosingGivesBackDescriptors) {
  { OpenDpdkPort("net_ring0"); }  // EAL itself stays
  const auto before = KindsOfDescriptors();
  for (int i = 0; i < 3; ++i) {
    const std::string socket = UniqueSocketPath();
    OpenedPort opened = OpenDpdkPort("net_memif0,role=server,socket=" + socket);
    ASSERT_NE(opened.port, nullptr) << opened.error;
  }
  // DPDK's interrupt thread renews its epoll descriptor, and may be doing so just now.
  EXPECT_TRUE(PollUntil([&] { return KindsOfDescriptors() == before; }, std::chrono::seconds(5)))
      << testing::PrintToString(KindsOfDescriptors()) << testing::PrintToString(before);
}

TEST(DpdkSideEffectsTest, FailureInsideDpdkIsExplained) {
  const std::string devargs =
      "role=server,socket=/tmp/uroce-abstract-" + std::to_string(getpid()) + ",socket-abstract=yes";
  const OpenedPort first = OpenDpdkPort("net_memif0," + devargs);
  ASSERT_NE(first.port, nullptr) << first.error;
  const std::string error = OpenDpdkPort("net_memif1," + devargs).error;  // the same id
  EXPECT_TRUE(error.starts_with("net_memif1 cannot be opened: Operation not permitted (")) << error;
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
}

TEST(DpdkSideEffectsTest, ForkedChildLeavesTheParentsPortAlone) {
  OpenedPort ring = OpenDpdkPort("net_ring0");
  ASSERT_NE(ring.port, nullptr) << ring.error;
  const auto descriptors = OpenDescriptors();
  Traffic traffic(ring.port.get(), 60, 60);
  traffic.Send(10);
  const pid_t child = fork();
  if (child == 0) {
    const bool silent = ring.port->Receive().bytes.empty() &&
                        ring.port->AcquireTransmit(transport::Route::kWire).empty() &&
                        !ring.port->link_up();
    ring.port->Flush();
    ring = {};
    _exit(silent && OpenDescriptors().size() <= descriptors.size() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  traffic.Receive();
  EXPECT_EQ(traffic.received(), 10u);
}

// DPDK in the child would work on the parent's memory.
TEST(DpdkSideEffectsTest, ForkedChildOpensNoPortOfItsOwn) {
  const OpenedPort ring = OpenDpdkPort("net_ring0");
  ASSERT_NE(ring.port, nullptr) << ring.error;
  const pid_t child = fork();
  if (child == 0) {
    const OpenedPort own = OpenDpdkPort("net_ring1");
    _exit(own.error.starts_with("DPDK cannot be used in a forked child") ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(DpdkSideEffectsTest, ForkedChildHoldsNoSocketOfThePort) {
  const std::string path = UniqueSocketPath();
  OpenedPort server = OpenDpdkPort("net_memif0,role=server,socket=" + path);
  ASSERT_NE(server.port, nullptr) << server.error;
  const pid_t child = fork();
  if (child == 0) {
    for (const auto& [fd, target] : OpenDescriptors()) {
      if (fd > STDERR_FILENO && target.starts_with("socket:")) _exit(1);
    }
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(DpdkSideEffectsTest, UnloadingTheLibraryIsHarmless) {
  { OpenDpdkPort("net_ring0"); }
  void* library = dlopen("dpdk_nic/port/dpdk/liburoce-dpdk.so", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  for (int i = 0; i < 100 && dlclose(library) == 0; ++i) {
  }
  EXPECT_NE(OpenDpdkPort("net_ring0").port, nullptr) << "its threads must find their code";
}

}  // namespace
}  // namespace uroce::nic
