#include "transport/ids.h"

#include <gtest/gtest.h>

namespace uroce::transport {
namespace {

TEST(GidTest, Ipv4IsMapped) {
  const Gid gid = Gid::FromIpv4({192, 0, 2, 1});
  const Gid expected{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1}};
  EXPECT_EQ(expected, gid);
  EXPECT_TRUE(gid.IsIpv4Mapped());
  EXPECT_FALSE(gid.IsZero());
}

TEST(GidTest, LinkLocalIsTheModifiedEui64) {
  const Gid gid = Gid::LinkLocal({0x52, 0x54, 0x00, 0x00, 0x00, 0x0a});
  const Gid expected{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x50, 0x54, 0, 0xff, 0xfe, 0, 0, 0x0a}};
  EXPECT_EQ(expected, gid);
  EXPECT_FALSE(gid.IsIpv4Mapped());
}

TEST(GidTest, AlmostMappedAddressesAreIpv6) {
  for (size_t i = 0; i < 12; ++i) {
    Gid gid = Gid::FromIpv4({10, 0, 0, 1});
    gid.bytes[i] ^= 1;
    EXPECT_FALSE(gid.IsIpv4Mapped()) << i;
  }
  EXPECT_TRUE(Gid{}.IsZero());
  EXPECT_FALSE(Gid{}.IsIpv4Mapped());
}

}  // namespace
}  // namespace uroce::transport
