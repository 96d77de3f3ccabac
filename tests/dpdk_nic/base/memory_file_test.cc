#include "dpdk_nic/base/memory_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <vector>

namespace uroce::nic {
namespace {

constexpr uint64_t kBytes = 1 << 20;
constexpr rlim_t kLimit = 4'096;

// Runs `f` in a child, as limits cannot be raised again. Returns its wait status.
template <class F>
int InChild(const F& f) {
  const pid_t child = fork();
  if (child == 0) _exit(f() ? 0 : 1);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

// Without root's privilege to pass the hard limit.
bool Limit(rlim_t soft, rlim_t hard) {
  const rlimit limit = {.rlim_cur = soft, .rlim_max = hard};
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
  return geteuid() != 0 || setresuid(65534, 65534, 65534) == 0;
}

bool IsAsLong(const UniqueFd& fd) {
  struct stat status;
  return fstat(fd.get(), &status) == 0 && status.st_size == static_cast<off_t>(kBytes);
}

TEST(MemoryFileTest, HasTheLengthAskedFor) { EXPECT_TRUE(IsAsLong(MakeMemoryFile("t", kBytes))); }

TEST(MemoryFileTest, SoftLimitDoesNotCountAndStays) {
  EXPECT_EQ(InChild([] {
              if (!Limit(kLimit, RLIM_INFINITY) || !IsAsLong(MakeMemoryFile("t", kBytes))) {
                return false;
              }
              rlimit now;
              return getrlimit(RLIMIT_FSIZE, &now) == 0 && now.rlim_cur == kLimit &&
                     now.rlim_max == RLIM_INFINITY;
            }),
            0);
}

TEST(MemoryFileTest, HardLimitIsAnErrorAndNoSignal) {
  EXPECT_EQ(InChild([] {
              if (!Limit(kLimit, kLimit)) return false;
              const UniqueFd fd = MakeMemoryFile("t", kBytes);
              return !fd && errno == EFBIG;
            }),
            0);
}

TEST(MemoryFileTest, RootPassesTheHardLimit) {
  const auto lower = [] {
    const rlimit limit = {.rlim_cur = kLimit, .rlim_max = kLimit};
    return setrlimit(RLIMIT_FSIZE, &limit) == 0;
  };
  const rlimit none = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
  const auto raises = [&] { return lower() && setrlimit(RLIMIT_FSIZE, &none) == 0; };
  if (InChild(raises) != 0) GTEST_SKIP() << "this user may not pass a hard limit";
  EXPECT_EQ(InChild([&] {
              if (!lower()) return false;
              if (!IsAsLong(MakeMemoryFile("t", kBytes))) return false;
              rlimit now;
              return getrlimit(RLIMIT_FSIZE, &now) == 0 && now.rlim_max == kLimit;
            }),
            0);
}

TEST(MemoryFileTest, SignalOfTheProgramIsKept) {
  EXPECT_EQ(InChild([] {
              sigset_t set, pending;
              sigemptyset(&set);
              sigaddset(&set, SIGXFSZ);
              if (pthread_sigmask(SIG_BLOCK, &set, nullptr) != 0 || raise(SIGXFSZ) != 0) {
                return false;
              }
              if (!Limit(kLimit, kLimit) || MakeMemoryFile("t", kBytes)) return false;
              return sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
            }),
            0);
}

TEST(MemoryFileTest, ThreadsRaiseTheLimitAtTheSameTime) {
  EXPECT_EQ(InChild([] {
              if (!Limit(kLimit, RLIM_INFINITY)) return false;
              std::atomic<int> failures = 0;
              std::vector<std::thread> threads;
              for (int i = 0; i < 4; ++i) {
                threads.emplace_back([&] {
                  for (int round = 0; round < 200; ++round) {
                    if (!MakeMemoryFile("t", kBytes)) ++failures;
                  }
                });
              }
              for (std::thread& thread : threads) thread.join();
              rlimit now;
              return failures == 0 && getrlimit(RLIMIT_FSIZE, &now) == 0 && now.rlim_cur == kLimit;
            }),
            0);
}

}  // namespace
}  // namespace uroce::nic
