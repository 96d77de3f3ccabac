#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <thread>

#include "verbs_provider/virtual_kernel/base/event_files.h"
#include "verbs_provider/virtual_kernel/base/fd_table.h"

namespace uroce::verbs::virtual_kernel {
namespace {

// Stands in for the interposed close(), which this test is not linked with.
void Close(int fd) {
  FdTable::Instance().Remove(fd);
  close(fd);
}

bool IsReadable(int fd) {
  pollfd poll_fd = {.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&poll_fd, 1, 0) == 1;
}

uint64_t ReadOne(int fd) {
  uint64_t record = 0;
  EXPECT_EQ(read(fd, &record, sizeof(record)), static_cast<ssize_t>(sizeof(record)));
  return record;
}

// The largest pipe that the kernel grants this user now; one page if the user has many pipes.
uint64_t LargestPipeBytes() {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
  const int bytes = fcntl(ends[1], F_GETPIPE_SZ);
  close(ends[0]);
  close(ends[1]);
  return static_cast<uint64_t>(bytes);
}

class EventFileTest : public testing::Test {
 protected:
  void SetUp() override {
    fd_ = uroce_event_file_open(8);
    ASSERT_GE(fd_, 0);
  }
  void TearDown() override { Close(fd_); }
  int Post(uint64_t element) { return uroce_event_post(fd_, &element); }
  void MakeNonBlocking() { fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK); }

  int fd_ = -1;
};

TEST_F(EventFileTest, RecordsComeOutInOrder) {
  EXPECT_FALSE(IsReadable(fd_));
  EXPECT_EQ(Post(1), 0);
  EXPECT_EQ(Post(2), 0);
  EXPECT_TRUE(IsReadable(fd_));
  EXPECT_EQ(ReadOne(fd_), 1u);
  EXPECT_EQ(ReadOne(fd_), 2u);
  EXPECT_FALSE(IsReadable(fd_));
}

TEST_F(EventFileTest, NonBlockingReadOfNothingIsEagain) {
  MakeNonBlocking();
  uint64_t record;
  EXPECT_EQ(read(fd_, &record, sizeof(record)), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(EventFileTest, BlockingReaderIsWokenByAPost) {
  std::thread poster([this] { EXPECT_EQ(Post(7), 0); });
  EXPECT_EQ(ReadOne(fd_), 7u);
  poster.join();
}

TEST_F(EventFileTest, PurgeDropsOneElementAndKeepsTheRestInOrder) {
  for (uint64_t element : {1, 9, 2, 9, 3}) ASSERT_EQ(Post(element), 0);
  EXPECT_EQ(uroce_event_purge(fd_, 9), 2u);
  for (uint64_t element : {1u, 2u, 3u}) EXPECT_EQ(ReadOne(fd_), element);
  EXPECT_FALSE(IsReadable(fd_));
}

// Purge moves a page of records at a time.
TEST_F(EventFileTest, ManyRecordsAreKeptInOrderByAPurge) {
  constexpr uint64_t kRecords = 3'000;
  for (uint64_t i = 0; i < kRecords; ++i) ASSERT_EQ(Post(i % 3 == 0 ? 0 : i), 0);
  EXPECT_EQ(uroce_event_purge(fd_, 0), kRecords / 3);
  for (uint64_t i = 0; i < kRecords; i += 3) {
    ASSERT_EQ(ReadOne(fd_), i + 1);
    ASSERT_EQ(ReadOne(fd_), i + 2);
  }
  EXPECT_FALSE(IsReadable(fd_));
}

// The application's descriptor blocks, but the purge must not.
TEST_F(EventFileTest, PurgeOfAnEmptyQueueReturnsAtOnce) {
  EXPECT_EQ(uroce_event_purge(fd_, 9), 0u);
}

TEST_F(EventFileTest, LongRecordsArePurgedByTheirElement) {
  const int fd = uroce_event_file_open(16);
  const uint64_t first[2] = {5, 6};
  const uint64_t second[2] = {6, 5};
  ASSERT_EQ(uroce_event_post(fd, first), 0);
  ASSERT_EQ(uroce_event_post(fd, second), 0);
  EXPECT_EQ(uroce_event_purge(fd, 5), 1u);
  uint64_t record[2];
  ASSERT_EQ(read(fd, record, sizeof(record)), static_cast<ssize_t>(sizeof(record)));
  EXPECT_EQ(record[0], 6u);
  EXPECT_EQ(record[1], 5u);
  Close(fd);
}

TEST_F(EventFileTest, FullQueueRefusesAndKeepsItsEvents) {
  uint64_t posted = 0;
  while (Post(posted) == 0) {
    ++posted;
    ASSERT_LT(posted, 1'000'000u);
  }
  EXPECT_EQ(Post(0), ENOBUFS);
  EXPECT_GE(posted * sizeof(uint64_t), LargestPipeBytes());
  for (uint64_t element = 0; element < posted; ++element) ASSERT_EQ(ReadOne(fd_), element);
}

TEST_F(EventFileTest, PostAfterTheReaderHasClosedIsNoSignal) {
  // The file stays open through a second descriptor while the first number is closed.
  const int copy = dup(fd_);
  FdTable::Instance().Insert(copy, FdTable::Instance().FindAny(fd_));
  close(fd_);
  close(copy);  // unnoticed by the FdTable
  const uint64_t element = 1;
  EXPECT_EQ(uroce_event_post(copy, &element), 0);
  FdTable::Instance().Remove(copy);
}

TEST_F(EventFileTest, IsClosedOnExec) { EXPECT_NE(fcntl(fd_, F_GETFD) & FD_CLOEXEC, 0); }

TEST_F(EventFileTest, NothingIsLeftAfterTheLastClose) {
  const int fd = uroce_event_file_open(8);
  const int next_private = fcntl(fd, F_DUPFD, 700);
  close(next_private);
  Close(fd);
  // The two private ends of `fd` had the numbers right below.
  EXPECT_EQ(FdTable::KindOf(next_private - 1), FileKind::kNone);
  EXPECT_EQ(fcntl(next_private - 1, F_GETFD), -1);
}

// Runs `body` in a child with an empty /proc, as in some containers. Returns its result; 77 if that
// cannot be set up.
template <class Body>
int RunWithoutProc(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    const int flags = CLONE_NEWNS | (geteuid() == 0 ? 0 : CLONE_NEWUSER);
    if (unshare(flags) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", "/proc", "tmpfs", 0, nullptr) != 0) {
      _exit(77);
    }
    _exit(body());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(EventFileInterfaceTest, WithoutProcTheReaderHasFlagsOfItsOwn) {
  const int result = RunWithoutProc([] {
    const int fd = uroce_event_file_open(8);
    if (fd < 0 || (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0) return 1;
    if ((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0 || IsReadable(fd)) return 2;
    for (const uint64_t element : {1, 2, 1}) {
      if (uroce_event_post(fd, &element) != 0) return 3;
    }
    if (uroce_event_purge(fd, 1) != 2 || ReadOne(fd) != 2 || IsReadable(fd)) return 4;
    // The purge does not wait for more, although the reader's descriptor would.
    return uroce_event_purge(fd, 1) == 0 ? 0 : 5;
  });
  if (result == 77) GTEST_SKIP() << "no mount namespace can be made here";
  EXPECT_EQ(result, 0);
}

TEST(EventFileInterfaceTest, OtherDescriptorsAreRefused) {
  const uint64_t element = 1;
  EXPECT_EQ(uroce_event_post(0, &element), EBADF);
  EXPECT_EQ(uroce_event_post(-1, &element), EBADF);
  EXPECT_EQ(uroce_event_purge(0, 1), 0u);
}

TEST(EventFileInterfaceTest, RecordSizeIsChecked) {
  errno = 0;
  EXPECT_EQ(uroce_event_file_open(4), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(uroce_event_file_open(64), -1);
}

}  // namespace
}  // namespace uroce::verbs::virtual_kernel
