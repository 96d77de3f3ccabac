#include "dpdk_nic/link_layer/local_address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace uroce::nic {
namespace {

using transport::Gid;

Gid Address(const std::string& text) {
  std::array<uint8_t, 4> ipv4;
  if (inet_pton(AF_INET, text.c_str(), ipv4.data()) == 1) return Gid::FromIpv4(ipv4);
  Gid gid;
  EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), gid.bytes.data()), 1) << text;
  return gid;
}

void ExpectSource(const std::vector<LocalAddress>& addresses, const std::string& destination,
                  const std::string& source) {
  const LocalAddress* found = SourceFor(addresses, Address(destination));
  ASSERT_NE(found, nullptr) << destination;
  EXPECT_EQ(found->ip, Address(source)) << destination;
}

TEST(LocalAddressTest, SourceIsOfTheSameIpVersion) {
  const std::vector<LocalAddress> addresses = {{Address("fe80::1"), 64},
                                               {Address("192.0.2.1"), 24}};
  ExpectSource(addresses, "198.51.100.1", "192.0.2.1");
  ExpectSource(addresses, "2001:db8::1", "fe80::1");
  EXPECT_EQ(SourceFor(std::span(addresses).first(1), Address("192.0.2.1")), nullptr);
}

TEST(LocalAddressTest, SourceIsOfTheSameScope) {
  const std::vector<LocalAddress> addresses = {
      {Address("2001:db8::1"), 64}, {Address("fe80::1"), 64}, {Address("2001:db8:1::1"), 64}};
  ExpectSource(addresses, "fe80::2", "fe80::1");
  // fd00::2 shares more leading bits with the link-local address: six.
  ExpectSource(addresses, "fd00::2", "2001:db8::1");
}

TEST(LocalAddressTest, SourceIsInTheSubnetOfTheDestination) {
  const std::vector<LocalAddress> addresses = {
      {Address("10.192.0.1"), 16}, {Address("10.0.0.1"), 8}, {Address("10.128.4.1"), 24}};
  ExpectSource(addresses, "10.192.7.7", "10.192.0.1");
  ExpectSource(addresses, "10.128.4.9", "10.128.4.1");
  // 10.128.5.9 shares more leading bits with 10.128.4.1, but is not in its subnet.
  ExpectSource(addresses, "10.128.5.9", "10.0.0.1");
}

TEST(LocalAddressTest, SourceIsTheNearestWhereSubnetsAreNotKnown) {
  const std::vector<LocalAddress> addresses = {{Address("192.0.2.1")}, {Address("198.51.100.1")}};
  ExpectSource(addresses, "198.51.100.200", "198.51.100.1");
  ExpectSource(addresses, "192.0.2.200", "192.0.2.1");
}

TEST(LocalAddressTest, FirstOfEqualsIsTheSource) {
  const std::vector<LocalAddress> addresses = {{Address("192.0.2.4"), 24},
                                               {Address("192.0.2.5"), 24}};
  ExpectSource(addresses, "192.0.2.200", "192.0.2.4");
  ExpectSource(addresses, "10.0.0.1", "192.0.2.4");
}

}  // namespace
}  // namespace uroce::nic
