#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "transport/guarded_access.h"

namespace uroce::transport {

// Turns faults of guarded accesses into failures while it lives; any other fault ends the test.
class FaultHandler {
 public:
  FaultHandler() {
    struct sigaction action = {};
    action.sa_sigaction = [](int signal, siginfo_t*, void* context) {
      auto& pc = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
      const uintptr_t resume = GuardedResumeAddress(static_cast<uintptr_t>(pc));
      if (resume == 0) {
        ::signal(signal, SIG_DFL);  // the instruction then faults again
        return;
      }
      faults_ = faults_ + 1;
      pc = static_cast<greg_t>(resume);
    };
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &segv_before_);
    sigaction(SIGBUS, &action, &bus_before_);
  }
  ~FaultHandler() {
    sigaction(SIGSEGV, &segv_before_, nullptr);
    sigaction(SIGBUS, &bus_before_, nullptr);
  }
  FaultHandler(const FaultHandler&) = delete;
  FaultHandler& operator=(const FaultHandler&) = delete;

  // Faults since the program started.
  static int faults() { return faults_; }

 private:
  static inline volatile int faults_ = 0;
  struct sigaction segv_before_;
  struct sigaction bus_before_;
};

// Pages of memory whose access can be taken away.
class Pages {
 public:
  explicit Pages(size_t count)
      : page_bytes_(static_cast<size_t>(sysconf(_SC_PAGESIZE))),
        bytes_(count * page_bytes_),
        data_(static_cast<uint8_t*>(
            mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~Pages() { munmap(data_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  uint8_t* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  size_t page_bytes() const { return page_bytes_; }
  void Protect(size_t page, int protection) const {
    mprotect(data_ + page * page_bytes_, page_bytes_, protection);
  }
  // Revokes access to all pages. The addresses stay mapped, so that nothing else is mapped there.
  void TakeAway() const { mprotect(data_, bytes_, PROT_NONE); }

 private:
  const size_t page_bytes_;
  const size_t bytes_;
  uint8_t* const data_;
};

// While it lives, the transport reaches the pages although they are protected, as the kernel can.
class ProtectedPages {
 public:
  explicit ProtectedPages(const Pages& pages) {
    pages_ = &pages;
    SetProtectedAccess({.read = Copy, .write = Copy});
  }
  ~ProtectedPages() { SetProtectedAccess({.read = nullptr, .write = nullptr}); }
  ProtectedPages(const ProtectedPages&) = delete;
  ProtectedPages& operator=(const ProtectedPages&) = delete;

 private:
  static bool Copy(void* to, const void* from, size_t bytes) {
    mprotect(pages_->data(), pages_->bytes(), PROT_READ | PROT_WRITE);
    std::memcpy(to, from, bytes);
    pages_->TakeAway();
    return true;
  }
  static inline const Pages* pages_ = nullptr;
};

}  // namespace uroce::transport
