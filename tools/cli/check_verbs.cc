#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <link.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

#include "tools/cli/finding.h"
#include "tools/cli/libraries.h"

namespace uroce::cli {
namespace {

// Private ABI numbers of libibverbs that the provider knows or may be able to use.
constexpr int kOldestPrivateAbi = 33;
constexpr int kNewestPrivateAbi = 199;

// The file of a loaded library, its name without links: "libibverbs.so.1.14.44.0".
std::string FileOf(void* library) {
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) return "?";
  std::error_code error;
  const auto path = std::filesystem::canonical(map->l_name, error);
  return error ? map->l_name : path.string();
}

// 0: no known private ABI.
int PrivateAbiOf(void* library) {
  for (int abi = kNewestPrivateAbi; abi >= kOldestPrivateAbi; --abi) {
    if (dlsym(library, ("verbs_register_driver_" + std::to_string(abi)).c_str()) != nullptr) {
      return abi;
    }
  }
  return 0;
}

// How to install a package with the package manager of this machine.
std::string HowToInstall(const std::string& debian, const std::string& red_hat) {
  if (access("/usr/bin/apt-get", X_OK) == 0) return "'apt-get install " + debian + "'";
  if (access("/usr/bin/dnf", X_OK) == 0) return "'dnf install " + red_hat + "'";
  if (access("/usr/bin/yum", X_OK) == 0) return "'yum install " + red_hat + "'";
  return "install the package " + debian + " or " + red_hat;
}

struct Outcome {
  int exit_status;
  std::string first_line;  // of what it wrote
};

// Runs a command to its end.
Outcome RunCommand(const std::vector<std::string>& command) {
  std::array<int, 2> pipe_ends;
  if (pipe(pipe_ends.data()) != 0) return {-1, std::strerror(errno)};
  const pid_t child = fork();
  if (child == 0) {
    dup2(pipe_ends[1], STDOUT_FILENO);
    dup2(pipe_ends[1], STDERR_FILENO);
    close(pipe_ends[0]);
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(1);
  }
  close(pipe_ends[1]);
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t got; (got = read(pipe_ends[0], buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  close(pipe_ends[0]);
  int status = -1;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text.substr(0, text.find('\n'))};
}

// Finds a public function, as programs do that load the library by name.
template <typename Function>
Function* Find(void* library, const char* name, Function* /*like*/) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

int OpenDeviceAsProgram() {
  void* library = dlopen("libibverbs.so.1", RTLD_NOW);
  if (library == nullptr) return 1;
  const auto get_device_list = Find(library, "ibv_get_device_list", &ibv_get_device_list);
  const auto get_device_name = Find(library, "ibv_get_device_name", &ibv_get_device_name);
  const auto open_device = Find(library, "ibv_open_device", &ibv_open_device);
  int count = 0;
  ibv_device** devices = get_device_list(&count);
  for (int i = 0; i < count; ++i) {
    const std::string name = get_device_name(devices[i]);
    if (name.compare(0, 5, "uroce") != 0) continue;
    if (open_device(devices[i]) == nullptr) {
      std::printf("%s cannot be opened (%s)\n", name.c_str(), std::strerror(errno));
      return 1;
    }
    std::printf("%s can be opened\n", name.c_str());
    return 0;
  }
  std::printf("libibverbs finds no device of uroce among %d\n", count);
  return 1;
}

Finding CheckDevice(const std::string& fabric) {
  const std::string self = LibrariesBesideExecutable().daemon.parent_path() / "uroce";
  const Outcome outcome =
      RunCommand({self, "run", "--fabric", fabric, "--", self, "check", "--open-device"});
  if (outcome.exit_status == 0) return {Verdict::kOk, "device", outcome.first_line};
  return {Verdict::kProblem, "device", outcome.first_line};
}

Finding CheckLibibverbs() {
  void* library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return {Verdict::kProblem, "libibverbs",
            "is not installed: " + HowToInstall("libibverbs1 ibverbs-utils", "libibverbs-utils")};
  }
  const int abi = PrivateAbiOf(library);
  if (abi == 0) {
    return {Verdict::kProblem, "libibverbs",
            FileOf(library) + " is older than release 33: use a newer release of the system"};
  }
  return {Verdict::kOk, "libibverbs", FileOf(library) + ", private ABI " + std::to_string(abi)};
}

Finding CheckLibrdmacm() {
  void* library = dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return {Verdict::kNote, "librdmacm",
            "is not installed: programs that use it need " +
                HowToInstall("librdmacm1 rdmacm-utils", "librdmacm-utils")};
  }
  return {Verdict::kOk, "librdmacm", FileOf(library)};
}

}  // namespace uroce::cli
