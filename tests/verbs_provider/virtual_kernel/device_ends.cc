// How a process that has seen the device may end. preloaded_test.sh runs it with device_behavior.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

namespace {

// The provider of the test says what it is told.
class EndTest : public testing::Test {
 protected:
  EndTest() {
    // Another program: in a forked child the device is the parent's.
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    setenv("TEST_PROVIDER_TELLS_THE_END", "1", 1);
    ibv_free_device_list(ibv_get_device_list(nullptr));
  }
  ~EndTest() override { unsetenv("TEST_PROVIDER_TELLS_THE_END"); }

  static constexpr char kTold[] = "^before the end\n$";
  static constexpr char kNotTold[] = "^$";
};

TEST_F(EndTest, ProviderIsToldOfExitsWithoutHandlers) {
  EXPECT_EXIT(_exit(3), testing::ExitedWithCode(3), kTold);
  EXPECT_EXIT(_Exit(4), testing::ExitedWithCode(4), kTold);
}

TEST_F(EndTest, ProviderIsToldOfAnotherProgram) {
  static char name[] = "true";
  static char* const argv[] = {name, nullptr};
  EXPECT_EXIT(execv("/bin/true", argv), testing::ExitedWithCode(0), kTold);
  EXPECT_EXIT(execvp("true", argv), testing::ExitedWithCode(0), kTold);
  EXPECT_EXIT(execve("/bin/true", argv, environ), testing::ExitedWithCode(0), kTold);
}

// The child has the memory of its parent, whose frames are not to be sent yet.
TEST_F(EndTest, ProviderIsNotToldOfTheEndOfAVforkedChild) {
  const auto end_child = [] {
    const pid_t child = vfork();
    if (child == 0) _exit(0);
    kill(getpid(), SIGKILL);
  };
  EXPECT_EXIT(end_child(), testing::KilledBySignal(SIGKILL), kNotTold);
}

}  // namespace
