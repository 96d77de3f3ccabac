#pragma once

#include <cerrno>

namespace uroce::verbs::virtual_kernel {

// Restores errno at the end of a scope: our work behind a libc call must not change it.
class ErrnoGuard {
 public:
  ErrnoGuard() : saved_(errno) {}
  ~ErrnoGuard() { errno = saved_; }
  ErrnoGuard(const ErrnoGuard&) = delete;
  ErrnoGuard& operator=(const ErrnoGuard&) = delete;

 private:
  const int saved_;
};

}  // namespace uroce::verbs::virtual_kernel
