// Functions that glibc lacks before 2.33 (stat and its kin are inline functions there, which call
// __xstat) and before 2.34 (close_range, closefrom).

#include <sys/syscall.h>

#include <algorithm>

#include "verbs_provider/virtual_kernel/base/real_libc.h"

namespace uroce::verbs::virtual_kernel {
namespace {

// The version of struct stat; on x86-64 there is only one.
constexpr int kStatVersion = 1;

constinit RealFunction<int(int, const char*, struct stat*)> xstat{"__xstat"};
constinit RealFunction<int(int, const char*, struct stat*)> lxstat{"__lxstat"};
constinit RealFunction<int(int, int, struct stat*)> fxstat{"__fxstat"};
constinit RealFunction<int(int, int, const char*, struct stat*, int)> fxstatat{"__fxstatat"};

int Stat(const char* path, struct stat* result) { return xstat(kStatVersion, path, result); }
int Lstat(const char* path, struct stat* result) { return lxstat(kStatVersion, path, result); }
int Fstat(int fd, struct stat* result) { return fxstat(kStatVersion, fd, result); }
int Fstatat(int directory_fd, const char* path, struct stat* result, int flags) {
  return fxstatat(kStatVersion, directory_fd, path, result, flags);
}

int CloseRange(unsigned int first, unsigned int last, int flags) {
  return static_cast<int>(syscall(__NR_close_range, first, last, flags));
}

void Closefrom(int first) {
  const int start = std::max(first, 0);
  if (CloseRange(static_cast<unsigned int>(start), ~0u, 0) == 0) return;
  const long end = sysconf(_SC_OPEN_MAX);
  for (int fd = start; fd < end; ++fd) syscall(SYS_close, fd);
}

template <typename Function>
void* AddressOf(Function* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

void* SubstituteOf(std::string_view name) {
  if (name == "stat") return AddressOf(Stat);
  if (name == "lstat") return AddressOf(Lstat);
  if (name == "fstat") return AddressOf(Fstat);
  if (name == "fstatat") return AddressOf(Fstatat);
  if (name == "close_range") return AddressOf(CloseRange);
  if (name == "closefrom") return AddressOf(Closefrom);
  return nullptr;
}

}  // namespace uroce::verbs::virtual_kernel
