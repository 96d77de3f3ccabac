// The lines that a program logs to standard error. UROCE_LOG is read once, so each case is a child.
#include "dpdk_nic/base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <string>

#include "dpdk_nic/base/unique_fd.h"

namespace uroce::nic {
namespace {

struct Pipe {
  Pipe() {
    std::array<int, 2> ends;
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    read_end = UniqueFd(ends[0]);
    write_end = UniqueFd(ends[1]);
  }
  UniqueFd read_end;
  UniqueFd write_end;
};

// Runs `body` in a child whose standard error is `fd`. Returns whether it returned true.
bool RunWith(int fd, const char* variable, const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    unsetenv("UROCE_LOG");
    if (variable != nullptr) setenv("UROCE_LOG", variable, 1);
    dup2(fd, STDERR_FILENO);
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::string WrittenWith(const char* variable, const std::function<bool()>& body) {
  Pipe pipe;
  EXPECT_TRUE(RunWith(pipe.write_end.get(), variable, body));
  pipe.write_end.reset();
  std::string text(4'096, '\0');
  const ssize_t bytes = read(pipe.read_end.get(), text.data(), text.size());
  text.resize(bytes > 0 ? static_cast<size_t>(bytes) : 0);
  return text;
}

bool LogOfEachLevel() {
  return Log(LogLevel::kError, "an error") && Log(LogLevel::kWarning, "a warning") &&
         Log(LogLevel::kInfo, "news") && Log(LogLevel::kDebug, "details");
}

TEST(LogTest, LibraryWritesErrorsAndWarnings) {
  EXPECT_EQ(WrittenWith(nullptr, LogOfEachLevel), "uroce: an error.\nuroce: a warning.\n");
  EXPECT_EQ(WrittenWith("", LogOfEachLevel), "uroce: an error.\nuroce: a warning.\n");
}

TEST(LogTest, ProgramHasANameAndALimitOfItsOwn) {
  const auto body = [] {
    NameLog("uroced", LogLevel::kInfo);
    return LogOfEachLevel();
  };
  EXPECT_EQ(WrittenWith(nullptr, body), "uroced: an error.\nuroced: a warning.\nuroced: news.\n");
  EXPECT_EQ(WrittenWith("error", body), "uroced: an error.\n");
}

TEST(LogTest, VariableSetsTheLimit) {
  EXPECT_EQ(WrittenWith("off", LogOfEachLevel), "");
  EXPECT_EQ(WrittenWith("error", LogOfEachLevel), "uroce: an error.\n");
  EXPECT_EQ(WrittenWith("debug", LogOfEachLevel),
            "uroce: an error.\nuroce: a warning.\nuroce: news.\nuroce: details.\n");
  EXPECT_EQ(WrittenWith("info", [] { return Logs(LogLevel::kInfo) && !Logs(LogLevel::kDebug); }),
            "");
}

TEST(LogTest, UnknownLimitIsReportedAndIgnored) {
  EXPECT_EQ(WrittenWith("loud", [] { return Log(LogLevel::kWarning, "a warning"); }),
            "uroce: UROCE_LOG is 'loud': set it to off, error, warning, info or debug.\n"
            "uroce: a warning.\n");
}

// If the line were not dropped, the child would block in write() for ever.
TEST(LogTest, FullPipeDropsTheLine) {
  Pipe pipe;
  ASSERT_EQ(fcntl(pipe.write_end.get(), F_SETFL, O_NONBLOCK), 0);
  const std::array<char, 4'096> page{};
  while (write(pipe.write_end.get(), page.data(), page.size()) > 0) {
  }
  ASSERT_EQ(fcntl(pipe.write_end.get(), F_SETFL, 0), 0);
  EXPECT_TRUE(RunWith(pipe.write_end.get(), nullptr,
                      [] { return !Log(LogLevel::kError, "no room for this"); }));
}

TEST(LogTest, FileTakesTheLine) {
  std::string path = std::string(std::getenv("TEST_TMPDIR")) + "/log.XXXXXX";
  const UniqueFd file(mkstemp(path.data()));
  ASSERT_TRUE(file);
  ASSERT_EQ(fcntl(file.get(), F_SETFL, O_APPEND), 0);
  EXPECT_TRUE(RunWith(file.get(), nullptr, LogOfEachLevel));
  std::string text(100, '\0');
  const ssize_t bytes = pread(file.get(), text.data(), text.size(), 0);
  ASSERT_GE(bytes, 0);
  text.resize(static_cast<size_t>(bytes));
  EXPECT_EQ(text, "uroce: an error.\nuroce: a warning.\n");
}

}  // namespace
}  // namespace uroce::nic
