#pragma once

#include <cerrno>

namespace uroce::verbs::virtual_kernel {

// Keeps errno as it was: what we do behind a libc call must not show.
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
