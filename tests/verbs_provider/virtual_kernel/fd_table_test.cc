#include "verbs_provider/virtual_kernel/base/fd_table.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace uroce::verbs::virtual_kernel {
namespace {

using ::testing::ElementsAre;

// Numbers that no descriptor of this test has.
constexpr int kFd = 5000;

// Counts its instances.
class CountedFile : public OpenFile {
 public:
  CountedFile() : OpenFile(FileKind::kUverbs) { ++alive; }
  ~CountedFile() override { --alive; }
  static inline int alive = 0;
};

class OtherFile : public OpenFile {
 public:
  OtherFile() : OpenFile(FileKind::kNetlink) {}
};

TEST(FdTableTest, UntrackedDescriptorHasNoKindAndNoFile) {
  EXPECT_EQ(FdTable::KindOf(kFd), FileKind::kNone);
  EXPECT_EQ(FdTable::KindOf(-1), FileKind::kNone);
  EXPECT_EQ(FdTable::KindOf(FdTable::kMaxFds), FileKind::kNone);
  EXPECT_EQ(FdTable::Instance().FindAny(kFd), nullptr);
}

TEST(FdTableTest, FindsOnlyTheRightClass) {
  FdTable& table = FdTable::Instance();
  table.Insert(kFd, std::make_shared<CountedFile>());
  EXPECT_EQ(FdTable::KindOf(kFd), FileKind::kUverbs);
  EXPECT_NE(table.Find<CountedFile>(kFd), nullptr);
  EXPECT_EQ(table.Find<OtherFile>(kFd), nullptr);
  table.Remove(kFd);
  EXPECT_EQ(FdTable::KindOf(kFd), FileKind::kNone);
}

TEST(FdTableTest, FileLivesUntilItsLastDescriptorGoes) {
  FdTable& table = FdTable::Instance();
  table.Insert(kFd, std::make_shared<CountedFile>());
  table.Insert(kFd + 1, table.FindAny(kFd));
  table.Remove(kFd);
  EXPECT_EQ(CountedFile::alive, 1);
  table.Remove(kFd + 1);
  EXPECT_EQ(CountedFile::alive, 0);
}

TEST(FdTableTest, RemoveOfAnUntrackedDescriptorDoesNothing) {
  FdTable::Instance().Remove(kFd);
  EXPECT_FALSE(FdTable::AnyTracked());
}

TEST(FdTableTest, ReusedNumberReplacesTheFile) {
  FdTable& table = FdTable::Instance();
  table.Insert(kFd, std::make_shared<CountedFile>());
  table.Insert(kFd, std::make_shared<OtherFile>());
  EXPECT_EQ(CountedFile::alive, 0);
  EXPECT_EQ(FdTable::KindOf(kFd), FileKind::kNetlink);
  table.Remove(kFd);
  EXPECT_FALSE(FdTable::AnyTracked());
}

TEST(FdTableTest, RangeIsAscendingAndInclusive) {
  FdTable& table = FdTable::Instance();
  for (int fd : {kFd + 3, kFd, kFd + 1}) table.Insert(fd, std::make_shared<OtherFile>());
  EXPECT_THAT(table.TrackedIn(kFd, kFd + 1), ElementsAre(kFd, kFd + 1));
  EXPECT_THAT(table.TrackedIn(kFd + 1, kFd + 3), ElementsAre(kFd + 1, kFd + 3));
  for (int fd : {kFd + 3, kFd, kFd + 1}) table.Remove(fd);
}

TEST(FdTableTest, BeyondTheTableIsRefused) {
  errno = 0;
  EXPECT_FALSE(FdTable::InRange(FdTable::kMaxFds));
  EXPECT_EQ(errno, EMFILE);
}

TEST(FdTableTest, ChildOfForkOwnsItsCopy) {
  FdTable& table = FdTable::Instance();
  table.Insert(kFd, std::make_shared<OtherFile>());
  const pid_t child = fork();
  if (child == 0) {
    const bool works = !table.InForeignProcess() && table.Find<OtherFile>(kFd) != nullptr;
    table.Remove(kFd);
    _exit(works ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(FdTable::KindOf(kFd), FileKind::kNetlink);
  EXPECT_FALSE(table.InForeignProcess());
  table.Remove(kFd);
}

TEST(FdTableTest, ThreadsDoNotDisturbEachOther) {
  FdTable& table = FdTable::Instance();
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&table, &wrong, fd = kFd + thread] {
      for (int round = 0; round < 2000; ++round) {
        table.Insert(fd, std::make_shared<OtherFile>());
        if (table.Find<OtherFile>(fd) == nullptr) ++wrong;
        table.Remove(fd);
        if (FdTable::KindOf(fd) != FileKind::kNone) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_FALSE(FdTable::AnyTracked());
}

TEST(PrivateFdTest, IsMovedAwayTrackedAndClosed) {
  int number;
  {
    const PrivateFd fd(open("/dev/null", O_RDONLY));
    number = fd.get();
    EXPECT_GE(number, 700);
    EXPECT_EQ(FdTable::KindOf(number), FileKind::kPrivate);
    EXPECT_NE(fcntl(number, F_GETFD), -1);
    EXPECT_NE(fcntl(number, F_GETFD) & FD_CLOEXEC, 0);
  }
  EXPECT_EQ(FdTable::KindOf(number), FileKind::kNone);
  EXPECT_EQ(fcntl(number, F_GETFD), -1);
}

TEST(PrivateFdTest, InvalidDescriptorIsEmptyAndUntracked) {
  const PrivateFd fd(-1);
  EXPECT_FALSE(static_cast<bool>(fd));
  EXPECT_FALSE(FdTable::AnyTracked());
}

}  // namespace
}  // namespace uroce::verbs::virtual_kernel
