#pragma once

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <string_view>

namespace uroce::verbs::virtual_kernel {

// Our replacement of libc's `name`, for a libc that is too old to have it; nullptr for the
// functions that every libc has.
void* SubstituteOf(std::string_view name);

template <typename Signature>
Signature* FindReal(const char* name, std::atomic<void*>& address) {
  void* function = address.load(std::memory_order_acquire);
  if (function == nullptr) {
    function = dlsym(RTLD_NEXT, name);
    if (function == nullptr) function = SubstituteOf(name);
    address.store(function, std::memory_order_release);
  }
  return reinterpret_cast<Signature*>(function);
}

// A libc function as it would be without us: the next definition in the search order, so that other
// preloaded libraries which interpose the same function keep working. Looked up when it is first
// called, as constructors of other libraries run before ours.
template <typename Signature>
class RealFunction;

template <typename Result, typename... Parameters>
class RealFunction<Result(Parameters...)> {
 public:
  constexpr explicit RealFunction(const char* name) : name_(name) {}

  Result operator()(Parameters... parameters) const { return Resolve()(parameters...); }
  auto* Resolve() const { return FindReal<Result(Parameters...)>(name_, address_); }

 private:
  const char* name_;
  mutable std::atomic<void*> address_ = nullptr;
};

// For functions with variable argument lists: open(), fcntl() and others.
template <typename Result, typename... Parameters>
class RealFunction<Result(Parameters..., ...)> {
 public:
  constexpr explicit RealFunction(const char* name) : name_(name) {}

  template <typename... More>
  Result operator()(Parameters... parameters, More... more) const {
    return Resolve()(parameters..., more...);
  }
  auto* Resolve() const { return FindReal<Result(Parameters..., ...)>(name_, address_); }

 private:
  const char* name_;
  mutable std::atomic<void*> address_ = nullptr;
};

// clang-format off
#define UROCE_REAL_FUNCTIONS(X) \
  X(open, int(const char*, int, ...)) \
  X(openat, int(int, const char*, int, ...)) \
  X(fopen, FILE*(const char*, const char*)) \
  X(freopen, FILE*(const char*, const char*, FILE*)) \
  X(opendir, DIR*(const char*)) \
  X(fdopendir, DIR*(int)) \
  X(readdir, dirent*(DIR*)) \
  X(readdir_r, int(DIR*, dirent*, dirent**)) \
  X(closedir, int(DIR*)) \
  X(rewinddir, void(DIR*)) \
  X(seekdir, void(DIR*, long)) \
  X(telldir, long(DIR*)) \
  X(dirfd, int(DIR*)) \
  X(scandir, int(const char*, dirent***, int (*)(const dirent*), \
                 int (*)(const dirent**, const dirent**))) \
  X(scandirat, int(int, const char*, dirent***, int (*)(const dirent*), \
                   int (*)(const dirent**, const dirent**))) \
  X(nftw, int(const char*, int (*)(const char*, const struct stat*, int, FTW*), int, int)) \
  X(ftw, int(const char*, int (*)(const char*, const struct stat*, int), int)) \
  X(glob, int(const char*, int, int (*)(const char*, int), glob_t*)) \
  X(stat, int(const char*, struct stat*)) \
  X(lstat, int(const char*, struct stat*)) \
  X(fstat, int(int, struct stat*)) \
  X(fstatat, int(int, const char*, struct stat*, int)) \
  X(statx, int(int, const char*, int, unsigned int, struct statx*)) \
  X(access, int(const char*, int)) \
  X(faccessat, int(int, const char*, int, int)) \
  X(eaccess, int(const char*, int)) \
  X(getxattr, ssize_t(const char*, const char*, void*, size_t)) \
  X(lgetxattr, ssize_t(const char*, const char*, void*, size_t)) \
  X(listxattr, ssize_t(const char*, char*, size_t)) \
  X(llistxattr, ssize_t(const char*, char*, size_t)) \
  X(readlink, ssize_t(const char*, char*, size_t)) \
  X(readlinkat, ssize_t(int, const char*, char*, size_t)) \
  X(realpath, char*(const char*, char*)) \
  X(close, int(int)) \
  X(close_range, int(unsigned int, unsigned int, int)) \
  X(closefrom, void(int)) \
  X(dup, int(int)) \
  X(dup2, int(int, int)) \
  X(dup3, int(int, int, int)) \
  X(fcntl, int(int, int, ...)) \
  X(ioctl, int(int, unsigned long, ...)) \
  X(read, ssize_t(int, void*, size_t)) \
  X(write, ssize_t(int, const void*, size_t)) \
  X(writev, ssize_t(int, const iovec*, int)) \
  X(socket, int(int, int, int)) \
  X(bind, int(int, const sockaddr*, socklen_t)) \
  X(getsockname, int(int, sockaddr*, socklen_t*)) \
  X(getsockopt, int(int, int, int, void*, socklen_t*)) \
  X(setsockopt, int(int, int, int, const void*, socklen_t)) \
  X(send, ssize_t(int, const void*, size_t, int)) \
  X(sendto, ssize_t(int, const void*, size_t, int, const sockaddr*, socklen_t)) \
  X(sendmsg, ssize_t(int, const msghdr*, int)) \
  X(recvfrom, ssize_t(int, void*, size_t, int, sockaddr*, socklen_t*)) \
  X(recvmsg, ssize_t(int, msghdr*, int)) \
  X(_exit, void(int)) \
  X(execve, int(const char*, char* const*, char* const*)) \
  X(execvpe, int(const char*, char* const*, char* const*)) \
  X(posix_spawn, int(pid_t*, const char*, const posix_spawn_file_actions_t*, \
                     const posix_spawnattr_t*, char* const*, char* const*)) \
  X(posix_spawnp, int(pid_t*, const char*, const posix_spawn_file_actions_t*, \
                      const posix_spawnattr_t*, char* const*, char* const*)) \
  X(dlopen, void*(const char*, int)) \
  X(dlmopen, void*(Lmid_t, const char*, int)) \
  X(sigaction, int(int, const struct sigaction*, struct sigaction*)) \
  X(signal, sighandler_t(int, sighandler_t)) \
  X(__sysv_signal, sighandler_t(int, sighandler_t)) \
  X(sigprocmask, int(int, const sigset_t*, sigset_t*)) \
  X(pthread_sigmask, int(int, const sigset_t*, sigset_t*))
// clang-format on

// `real::x` is libc's x. The 64-bit-offset twins (open64, stat64 ...) are the same functions on the
// 64-bit platforms we support.
namespace real {

#define UROCE_X(name, ...) inline constinit RealFunction<__VA_ARGS__> name{#name};
UROCE_REAL_FUNCTIONS(UROCE_X)
#undef UROCE_X

// Looks all of them up at once. To be called early: a look-up takes the dynamic linker's lock,
// which a signal handler or the child of a fork() must not wait for.
inline void ResolveAll() {
#define UROCE_X(name, ...) name.Resolve();
  UROCE_REAL_FUNCTIONS(UROCE_X)
#undef UROCE_X
}

}  // namespace real
}  // namespace uroce::verbs::virtual_kernel
