#include "dpdk_nic/control/xrc_domains.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "tests/dpdk_nic/control/control_test_support.h"

namespace uroce::nic::control {
namespace {

constexpr Block kFirst = 5;
constexpr Block kSecond = 6;

class XrcDomainsTest : public ::testing::Test {
 protected:
  struct Wanted {
    uint64_t handle = 1;
    bool creates = true;
    bool exclusive = false;
    transport::XrcKey key{};
  };
  XrcDomainAnswer Open(Block block, const Wanted& wanted) { return Open(block, wanted, file_); }
  XrcDomainAnswer Open(Block block, const Wanted& wanted, const UniqueFd& file) {
    return domains_.Open(block, {wanted.handle, wanted.key, wanted.creates, wanted.exclusive},
                         UniqueFd(dup(file.get())));
  }

  const UniqueFd file_{memfd_create("first", MFD_CLOEXEC)};
  const UniqueFd other_file_{memfd_create("second", MFD_CLOEXEC)};
  int closed_ = 0;
  XrcDomains domains_{[this](UniqueFd file) { closed_ += file ? 1 : 0; }};
};

TEST_F(XrcDomainsTest, DomainIsThatOfTheFile) {
  const XrcDomainAnswer first = Open(kFirst, {});
  EXPECT_EQ(first.error, 0);
  EXPECT_EQ(first.handle, 1u);
  EXPECT_FALSE(first.key.IsZero());
  EXPECT_EQ(Open(kSecond, {.creates = false}).key, first.key);
  const XrcDomainAnswer other = Open(kSecond, {.handle = 2}, other_file_);
  EXPECT_EQ(other.error, 0);
  EXPECT_NE(other.key, first.key);
}

TEST_F(XrcDomainsTest, FlagsAreThoseOfOpen) {
  EXPECT_EQ(Open(kFirst, {.creates = false}).error, EAGAIN);
  EXPECT_EQ(Open(kFirst, {.creates = false, .exclusive = true}).error, EAGAIN);
  EXPECT_EQ(Open(kFirst, {.exclusive = true}).error, 0);
  EXPECT_EQ(Open(kSecond, {.exclusive = true}).error, EINVAL);
  EXPECT_EQ(Open(kSecond, {.creates = false, .exclusive = true}).error, EINVAL);
  EXPECT_TRUE(Open(kSecond, {.exclusive = true}).key.IsZero()) << "the key is a secret";
}

TEST_F(XrcDomainsTest, DomainEndsWithItsLastOpening) {
  const transport::XrcKey key = Open(kFirst, {}).key;
  EXPECT_EQ(Open(kSecond, {}).key, key);
  domains_.Close(kFirst, 1);
  domains_.Close(kFirst, 1);
  EXPECT_EQ(Open(kFirst, {.creates = false}).key, key);
  domains_.Remove(kFirst);
  domains_.Close(kSecond, 1);
  EXPECT_EQ(Open(kFirst, {.creates = false}).error, EAGAIN);
  EXPECT_NE(Open(kFirst, {}).key, key);
}

TEST_F(XrcDomainsTest, FileStaysOpenAsLongAsItsDomain) {
  Open(kFirst, {});
  EXPECT_EQ(closed_, 0);
  Open(kSecond, {});
  EXPECT_EQ(closed_, 1) << "one descriptor is enough";
  domains_.Remove(kFirst);
  EXPECT_EQ(closed_, 1);
  domains_.Remove(kSecond);
  EXPECT_EQ(closed_, 2);
  Open(kFirst, {.creates = false});
  EXPECT_EQ(closed_, 3);
}

// uroced was started anew: processes tell it what they have.
TEST_F(XrcDomainsTest, ResumedDomainKeepsItsKey) {
  const transport::XrcKey key = {{7}};
  EXPECT_EQ(Open(kFirst, {.creates = false, .exclusive = true, .key = key}).key, key);
  EXPECT_EQ(Open(kSecond, {.creates = false, .exclusive = true, .key = key}).key, key);
  EXPECT_EQ(Open(kSecond, {.handle = 2, .creates = false}).key, key);
}

TEST_F(XrcDomainsTest, OpeningsOfAProcessAreLimited) {
  for (uint64_t handle = 0; handle < XrcDomains::kMaxOfProcess; ++handle) {
    EXPECT_EQ(Open(kFirst, {.handle = handle}).error, 0);
  }
  EXPECT_EQ(Open(kFirst, {.handle = 99}).error, ENOMEM);
  EXPECT_EQ(Open(kSecond, {}).error, 0) << "other processes are not concerned";
  domains_.Close(kFirst, 3);
  EXPECT_EQ(Open(kFirst, {.handle = 99}).error, 0);
}

TEST_F(XrcDomainsTest, HandleIsUsedOnce) {
  EXPECT_EQ(Open(kFirst, {}).error, 0);
  EXPECT_EQ(Open(kFirst, {}, other_file_).error, EINVAL);
}

}  // namespace
}  // namespace uroce::nic::control
