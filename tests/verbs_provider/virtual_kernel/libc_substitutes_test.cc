#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>

#include "verbs_provider/virtual_kernel/base/real_libc.h"

namespace uroce::verbs::virtual_kernel {
namespace {

template <typename Signature>
Signature* Substitute(const char* name) {
  return reinterpret_cast<Signature*>(SubstituteOf(name));
}

TEST(LibcSubstitutesTest, StatMatchesLibc) {
  struct stat expected;
  ASSERT_EQ(stat("/dev/null", &expected), 0);
  struct stat found;
  ASSERT_EQ((Substitute<int(const char*, struct stat*)>("stat")("/dev/null", &found)), 0);
  EXPECT_EQ(found.st_rdev, expected.st_rdev);
  ASSERT_EQ((Substitute<int(const char*, struct stat*)>("lstat")("/dev/null", &found)), 0);
  EXPECT_EQ(found.st_mode, expected.st_mode);
  ASSERT_EQ((Substitute<int(int, const char*, struct stat*, int)>("fstatat")(AT_FDCWD, "/dev/null",
                                                                             &found, 0)),
            0);
  EXPECT_EQ(found.st_ino, expected.st_ino);
}

TEST(LibcSubstitutesTest, FstatOfNoDescriptorFails) {
  struct stat found;
  EXPECT_EQ((Substitute<int(int, struct stat*)>("fstat")(-1, &found)), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST(LibcSubstitutesTest, CloseRangeClosesTheGivenDescriptors) {
  const int fd = dup(STDERR_FILENO);
  ASSERT_GE(fd, 0);
  const auto number = static_cast<unsigned int>(fd);
  const int result =
      Substitute<int(unsigned int, unsigned int, int)>("close_range")(number, number, 0);
  if (result != 0) GTEST_SKIP() << "the kernel is older than 5.9";
  EXPECT_EQ(fcntl(fd, F_GETFD), -1);
}

TEST(LibcSubstitutesTest, FunctionsThatEveryLibcHasHaveNone) {
  EXPECT_EQ(SubstituteOf("open"), nullptr);
  EXPECT_EQ(SubstituteOf("fstat64"), nullptr);
}

}  // namespace
}  // namespace uroce::verbs::virtual_kernel
