#include "dpdk_nic/link_layer/link_layer.h"

#include <gtest/gtest.h>

namespace uroce::nic {
namespace {

using transport::Gid;
using transport::MacAddress;

// RFC 4291, appendix A.
TEST(MacAddressForTest, LinkLocalAddressContainsTheMac) {
  for (const MacAddress& mac :
       {MacAddress{2, 1, 2, 3, 4, 5}, MacAddress{0x98, 0x03, 0x9b, 0xaa, 0xbb, 0xcc}}) {
    EXPECT_EQ(MacAddressFor(Gid::LinkLocal(mac)), mac);
  }
}

TEST(MacAddressForTest, OtherAddressesGiveALocalOneWithTheirEnd) {
  Gid random = Gid::LinkLocal({2, 1, 2, 3, 4, 5});
  random.bytes[11] = 7;  // no EUI-64, as with privacy extensions
  EXPECT_EQ(MacAddressFor(random), (MacAddress{2, 0x75, 0xfe, 3, 4, 5}));
  EXPECT_EQ(MacAddressFor(Gid::FromIpv4({10, 1, 2, 3})), (MacAddress{2, 0x75, 10, 1, 2, 3}));
}

// RFC 1112, 6.4: 23 bits of the group; RFC 2464, 7: 32 bits.
TEST(MulticastMacTest, HasTheLowBitsOfTheGroup) {
  EXPECT_EQ(MulticastMac(Gid::FromIpv4({239, 0x81, 2, 3})), (MacAddress{1, 0, 0x5e, 1, 2, 3}));
  Gid group{};
  group.bytes[0] = 0xff;
  group.bytes[12] = 0x81;
  group.bytes[15] = 9;
  EXPECT_EQ(MulticastMac(group), (MacAddress{0x33, 0x33, 0x81, 0, 0, 9}));
  EXPECT_EQ(MulticastMac(Gid::FromIpv4({10, 1, 2, 3})), std::nullopt);
}

}  // namespace
}  // namespace uroce::nic
