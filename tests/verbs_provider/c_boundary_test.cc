#include "verbs_provider/base/c_boundary.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <stdexcept>
#include <system_error>

namespace uroce::verbs {
namespace {

TEST(CBoundaryTest, ReturnsTheErrorAndSetsErrno) {
  errno = 0;
  EXPECT_EQ(ReturningErrno([] { return EBUSY; }), EBUSY);
  EXPECT_EQ(errno, EBUSY);
}

TEST(CBoundaryTest, SuccessLeavesErrnoAlone) {
  errno = EXDEV;
  EXPECT_EQ(ReturningErrno([] { return 0; }), 0);
  EXPECT_EQ(SettingErrno([] { return 0; }), 0);
  EXPECT_EQ(errno, EXDEV);
}

// The return value and the errno of a verb whose implementation throws `exception`.
template <class Exception>
int ErrorAfter(const Exception& exception) {
  errno = 0;
  const int error = ReturningErrno([&]() -> int { throw exception; });
  EXPECT_EQ(errno, error);
  return error;
}

TEST(CBoundaryTest, ExceptionBecomesTheClosestErrno) {
  EXPECT_EQ(ErrorAfter(std::bad_alloc()), ENOMEM);
  EXPECT_EQ(ErrorAfter(std::system_error(EMFILE, std::generic_category())), EMFILE);
  EXPECT_EQ(ErrorAfter(std::runtime_error("something else")), EIO);
  EXPECT_EQ(ErrorAfter(7), EIO);
}

// A program would take 0 for success, and a negative number is no errno.
TEST(CBoundaryTest, SystemErrorWithoutAnErrnoIsAnErrorStill) {
  EXPECT_EQ(ErrorAfter(std::system_error(0, std::generic_category())), EIO);
  EXPECT_EQ(ErrorAfter(std::system_error(-3, std::generic_category())), EIO);
}

TEST(CBoundaryTest, ObjectIsReturnedOnSuccessOnly) {
  int made = 0;
  EXPECT_EQ(ReturningObject<int>([&](int*& out) {
              out = &made;
              return 0;
            }),
            &made);
  errno = 0;
  EXPECT_EQ(ReturningObject<int>([&](int*& out) {
              out = &made;
              return ENOSPC;
            }),
            nullptr);
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_EQ(ReturningObject<int>([](int*&) -> int { throw std::bad_alloc(); }), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

}  // namespace
}  // namespace uroce::verbs
