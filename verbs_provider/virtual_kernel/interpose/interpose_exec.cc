// execve and the other calls that start a program. A program that is given an LD_PRELOAD without
// us, as by a script that preloads a library of its own, would find no device, so we are added to
// it. A program that removes the variable altogether wants no device.

#include <alloca.h>
#include <dlfcn.h>
#include <spawn.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "verbs_provider/virtual_kernel/base/real_libc.h"
#include "verbs_provider/virtual_kernel/device/device.h"
#include "verbs_provider/virtual_kernel/interpose/interpose.h"

namespace uroce::verbs::virtual_kernel {
namespace {

constexpr char kPreload[] = "LD_PRELOAD=";
constexpr size_t kPreloadLength = sizeof kPreload - 1;
// A program without this variable does not want us either.
constexpr char kProvider[] = "UROCE_PROVIDER=";

// The name by which the loader found us. Looked up once: that takes the loader's lock, which the
// child of a fork must not wait for.
const char* own_path = nullptr;

[[gnu::constructor]] void FindOwnPath() {
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&FindOwnPath), &self) != 0) own_path = self.dli_fname;
}

struct Environment {
  size_t count = 0;
  size_t preload = SIZE_MAX;  // the place of LD_PRELOAD, if we are to be added to it
};

Environment LookAt(char* const* variables) {
  Environment found;
  bool has_provider = false;
  for (; variables[found.count] != nullptr; ++found.count) {
    const char* const variable = variables[found.count];
    if (strncmp(variable, kProvider, sizeof kProvider - 1) == 0) has_provider = true;
    if (strncmp(variable, kPreload, kPreloadLength) != 0) continue;
    const bool has_us = strstr(variable + kPreloadLength, own_path) != nullptr;
    found.preload = has_us ? SIZE_MAX : found.count;
  }
  if (!has_provider) found.preload = SIZE_MAX;
  return found;
}

// Calls `start` with the environment that the program is to have. Allocates nothing but stack: this
// runs between fork, or vfork, and exec.
template <class Start>
int WithUs(char* const* variables, const Start& start) {
  if (variables == nullptr || own_path == nullptr) return start(variables);
  const Environment found = LookAt(variables);
  if (found.preload == SIZE_MAX) return start(variables);
  const char* const others = variables[found.preload] + kPreloadLength;
  const size_t room = kPreloadLength + strlen(own_path) + 1 + strlen(others) + 1;
  auto* const preload = static_cast<char*>(alloca(room));
  char* end = stpcpy(stpcpy(preload, kPreload), own_path);
  if (*others != '\0') stpcpy(stpcpy(end, ":"), others);
  auto** const copy = static_cast<char**>(alloca((found.count + 1) * sizeof(char*)));
  memcpy(copy, variables, (found.count + 1) * sizeof(char*));
  copy[found.preload] = preload;
  return start(copy);
}

using SpawnActions = posix_spawn_file_actions_t;
using SpawnAttributes = posix_spawnattr_t;

}  // namespace

extern "C" {

int InterposedExecve(const char* path, char* const* argv, char* const* variables)
    UROCE_INTERPOSE(execve);
int InterposedExecve(const char* path, char* const* argv, char* const* variables) {
  BeforeEnd();
  return WithUs(variables, [&](char* const* ours) { return real::execve(path, argv, ours); });
}

int InterposedExecv(const char* path, char* const* argv) UROCE_INTERPOSE(execv);
int InterposedExecv(const char* path, char* const* argv) {
  BeforeEnd();
  return WithUs(environ, [&](char* const* ours) { return real::execve(path, argv, ours); });
}

int InterposedExecvp(const char* file, char* const* argv) UROCE_INTERPOSE(execvp);
int InterposedExecvp(const char* file, char* const* argv) {
  BeforeEnd();
  return WithUs(environ, [&](char* const* ours) { return real::execvpe(file, argv, ours); });
}

int InterposedExecvpe(const char* file, char* const* argv, char* const* variables)
    UROCE_INTERPOSE(execvpe);
int InterposedExecvpe(const char* file, char* const* argv, char* const* variables) {
  BeforeEnd();
  return WithUs(variables, [&](char* const* ours) { return real::execvpe(file, argv, ours); });
}

int InterposedPosixSpawn(pid_t* pid, const char* path, const SpawnActions* actions,
                         const SpawnAttributes* attributes, char* const* argv,
                         char* const* variables) UROCE_INTERPOSE(posix_spawn);
int InterposedPosixSpawn(pid_t* pid, const char* path, const SpawnActions* actions,
                         const SpawnAttributes* attributes, char* const* argv,
                         char* const* variables) {
  return WithUs(variables, [&](char* const* ours) {
    return real::posix_spawn(pid, path, actions, attributes, argv, ours);
  });
}

int InterposedPosixSpawnp(pid_t* pid, const char* file, const SpawnActions* actions,
                          const SpawnAttributes* attributes, char* const* argv,
                          char* const* variables) UROCE_INTERPOSE(posix_spawnp);
int InterposedPosixSpawnp(pid_t* pid, const char* file, const SpawnActions* actions,
                          const SpawnAttributes* attributes, char* const* argv,
                          char* const* variables) {
  return WithUs(variables, [&](char* const* ours) {
    return real::posix_spawnp(pid, file, actions, attributes, argv, ours);
  });
}

}  // extern "C"

}  // namespace uroce::verbs::virtual_kernel
