#pragma once

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>

namespace uroce::verbs::virtual_kernel {

template <typename Signature>
Signature* FindReal(const char* name, std::atomic<void*>& address) {
  void* function = address.load(std::memory_order_acquire);
  if (function == nullptr) {
    function = dlsym(RTLD_NEXT, name);
    address.store(function, std::memory_order_release);
  }
  return reinterpret_cast<Signature*>(function);
}

// A libc function as it would be without us: the next definition in the search order, so that other
// preloaded libraries which interpose the same function keep working. Looked up when it is first
// called: constructors of other libraries run before ours.
template <typename Signature>
class RealFunction;

template <typename Result, typename... Parameters>
class RealFunction<Result(Parameters...)> {
 public:
  constexpr explicit RealFunction(const char* name) : name_(name) {}

  Result operator()(Parameters... parameters) const {
    return FindReal<Result(Parameters...)>(name_, address_)(parameters...);
  }

 private:
  const char* name_;
  mutable std::atomic<void*> address_ = nullptr;
};

// open(), fcntl() and others of C's variable argument lists.
template <typename Result, typename... Parameters>
class RealFunction<Result(Parameters..., ...)> {
 public:
  constexpr explicit RealFunction(const char* name) : name_(name) {}

  template <typename... More>
  Result operator()(Parameters... parameters, More... more) const {
    return FindReal<Result(Parameters..., ...)>(name_, address_)(parameters..., more...);
  }

 private:
  const char* name_;
  mutable std::atomic<void*> address_ = nullptr;
};

// Everything below that is called `real::x` is libc's x. The 64-bit-offset twins (open64, stat64
// ...) are the same functions on the 64-bit platforms we support.
namespace real {

#define UROCE_REAL_FUNCTION(name, ...) \
  inline constinit RealFunction<__VA_ARGS__> name { #name }

UROCE_REAL_FUNCTION(open, int(const char*, int, ...));
UROCE_REAL_FUNCTION(openat, int(int, const char*, int, ...));
UROCE_REAL_FUNCTION(fopen, FILE*(const char*, const char*));
UROCE_REAL_FUNCTION(opendir, DIR*(const char*));
UROCE_REAL_FUNCTION(fdopendir, DIR*(int));
UROCE_REAL_FUNCTION(readdir, dirent*(DIR*));
UROCE_REAL_FUNCTION(closedir, int(DIR*));
UROCE_REAL_FUNCTION(rewinddir, void(DIR*));
UROCE_REAL_FUNCTION(seekdir, void(DIR*, long));
UROCE_REAL_FUNCTION(telldir, long(DIR*));
UROCE_REAL_FUNCTION(dirfd, int(DIR*));

UROCE_REAL_FUNCTION(stat, int(const char*, struct stat*));
UROCE_REAL_FUNCTION(lstat, int(const char*, struct stat*));
UROCE_REAL_FUNCTION(fstat, int(int, struct stat*));
UROCE_REAL_FUNCTION(fstatat, int(int, const char*, struct stat*, int));
UROCE_REAL_FUNCTION(statx, int(int, const char*, int, unsigned int, struct statx*));
UROCE_REAL_FUNCTION(access, int(const char*, int));
UROCE_REAL_FUNCTION(faccessat, int(int, const char*, int, int));
UROCE_REAL_FUNCTION(readlink, ssize_t(const char*, char*, size_t));
UROCE_REAL_FUNCTION(readlinkat, ssize_t(int, const char*, char*, size_t));
UROCE_REAL_FUNCTION(realpath, char*(const char*, char*));

UROCE_REAL_FUNCTION(close, int(int));
UROCE_REAL_FUNCTION(close_range, int(unsigned int, unsigned int, int));
UROCE_REAL_FUNCTION(closefrom, void(int));
UROCE_REAL_FUNCTION(dup, int(int));
UROCE_REAL_FUNCTION(dup2, int(int, int));
UROCE_REAL_FUNCTION(dup3, int(int, int, int));
UROCE_REAL_FUNCTION(fcntl, int(int, int, ...));
UROCE_REAL_FUNCTION(ioctl, int(int, unsigned long, ...));
UROCE_REAL_FUNCTION(read, ssize_t(int, void*, size_t));
UROCE_REAL_FUNCTION(write, ssize_t(int, const void*, size_t));

UROCE_REAL_FUNCTION(socket, int(int, int, int));
UROCE_REAL_FUNCTION(bind, int(int, const sockaddr*, socklen_t));
UROCE_REAL_FUNCTION(getsockname, int(int, sockaddr*, socklen_t*));
UROCE_REAL_FUNCTION(getsockopt, int(int, int, int, void*, socklen_t*));
UROCE_REAL_FUNCTION(setsockopt, int(int, int, int, const void*, socklen_t));
UROCE_REAL_FUNCTION(send, ssize_t(int, const void*, size_t, int));
UROCE_REAL_FUNCTION(sendto, ssize_t(int, const void*, size_t, int, const sockaddr*, socklen_t));
UROCE_REAL_FUNCTION(sendmsg, ssize_t(int, const msghdr*, int));
UROCE_REAL_FUNCTION(recvfrom, ssize_t(int, void*, size_t, int, sockaddr*, socklen_t*));
UROCE_REAL_FUNCTION(recvmsg, ssize_t(int, msghdr*, int));

#undef UROCE_REAL_FUNCTION

}  // namespace real
}  // namespace uroce::verbs::virtual_kernel
