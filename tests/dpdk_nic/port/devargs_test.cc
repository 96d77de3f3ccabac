#include "dpdk_nic/port/devargs.h"

#include <gtest/gtest.h>

namespace uroce::nic {
namespace {

std::string ErrorOf(const std::string& text) {
  const auto devargs = Devargs::Parse(text);
  return devargs.ok() ? "accepted" : devargs.error();
}

TEST(DevargsTest, MemifGetsDefaultsThatHoldAFrame) {
  const auto devargs = Devargs::Parse("net_memif0,role=server,socket=/run/x");
  ASSERT_TRUE(devargs.ok()) << devargs.error();
  EXPECT_EQ(devargs.value().driver(), Devargs::Driver::kMemif);
  EXPECT_EQ(devargs.value().device(), "net_memif0");
  EXPECT_EQ(devargs.value().DriverOptions(),
            "role=server,socket=/run/x,socket-abstract=no,bsize=6400,rsize=9,id=0");
}

TEST(DevargsTest, OptionsOfTheUserAreKept) {
  const auto devargs = Devargs::Parse(
      "net_memif7,role=client,socket=link,id=3,bsize=4224,rsize=4,socket-abstract=yes");
  ASSERT_TRUE(devargs.ok()) << devargs.error();
  EXPECT_EQ(devargs.value().DriverOptions(),
            "role=client,socket=link,id=3,bsize=4224,rsize=4,socket-abstract=yes");
}

TEST(DevargsTest, NameOutsideTheFileSystemIsAbstract) {
  const auto devargs = Devargs::Parse("net_memif0,role=client,socket=link");
  ASSERT_TRUE(devargs.ok());
  EXPECT_EQ(*devargs.value().Find("socket-abstract"), "yes");
}

TEST(DevargsTest, PciAddressesAreCompleted) {
  for (const char* text : {"0000:3b:00.0", "3b:00.0"}) {
    const auto devargs = Devargs::Parse(text);
    ASSERT_TRUE(devargs.ok()) << devargs.error();
    EXPECT_EQ(devargs.value().driver(), Devargs::Driver::kPci);
    EXPECT_EQ(devargs.value().device(), "0000:3b:00.0");
  }
}

TEST(DevargsTest, HugepagesIsOurKeyAndNotTheDrivers) {
  const auto devargs = Devargs::Parse("net_ring0,hugepages=1");
  ASSERT_TRUE(devargs.ok()) << devargs.error();
  EXPECT_EQ(devargs.value().hugepages(), true);
  EXPECT_EQ(devargs.value().DriverOptions(), "");
  EXPECT_EQ(Devargs::Parse("net_ring0,hugepages=0").value().hugepages(), false);
  EXPECT_EQ(Devargs::Parse("net_ring0").value().hugepages(), std::nullopt);
}

TEST(DevargsTest, NullReceivesNothingUnlessTold) {
  EXPECT_EQ(Devargs::Parse("net_null0").value().DriverOptions(), "no-rx=1");
  EXPECT_EQ(Devargs::Parse("net_null0,no-rx=0,size=128").value().DriverOptions(),
            "no-rx=0,size=128");
}

TEST(DevargsTest, UdpMayHaveAnAddress) {
  const auto plain = Devargs::Parse("udp");
  EXPECT_EQ(plain.value().driver(), Devargs::Driver::kUdp);
  EXPECT_EQ(plain.value().Find("address"), nullptr);
  EXPECT_EQ(*Devargs::Parse("udp,address=fd00::1").value().Find("address"), "fd00::1");
  EXPECT_EQ(ErrorOf("udp,iface=eth0"), "udp has no option \"iface\"; it takes address");
  EXPECT_EQ(ErrorOf("udp,hugepages=1"), "udp has no option \"hugepages\"; it takes address");
}

TEST(DevargsTest, UnknownDevicesAreRefused) {
  const std::string tail =
      "; use udp, net_memif0, net_af_packet0, net_af_xdp0, net_ring0, net_null0 or a PCI address "
      "such "
      "as "
      "0000:3b:00.0";
  for (const char* name :
       {"", "net_memif", "net_memifx", "net_tap0", "eth0", "3b:00", "3b:00.9", "udp0"}) {
    EXPECT_EQ(ErrorOf(name), "there is no port \"" + std::string(name) + "\"" + tail);
  }
}

// The drivers would silently use a default.
TEST(DevargsTest, UnknownKeysAreRefused) {
  EXPECT_EQ(
      ErrorOf("net_memif0,role=server,socket=/run/x,bzise=9000"),
      "net_memif0 has no option \"bzise\"; it takes role, socket, socket-abstract, id, bsize, "
      "rsize, mac, secret");
  EXPECT_EQ(ErrorOf("net_ring0,size=1"), "net_ring0 has no option \"size\"; it takes none");
}

TEST(DevargsTest, MalformedOptionsAreRefused) {
  for (const char* option : {"", "role", "=server", "role="}) {
    EXPECT_EQ(ErrorOf(std::string("net_memif0,") + option),
              "\"" + std::string(option) +
                  "\" in the options of net_memif0 is not of the form key=value");
  }
  EXPECT_EQ(ErrorOf("net_null0,size=1,size=2"), "net_null0 is given size twice");
  EXPECT_EQ(ErrorOf("net_null0,hugepages=yes"), "hugepages must be 0 or 1");
}

TEST(DevargsTest, MemifValuesAreChecked) {
  const std::string good = "net_memif0,role=server,socket=/run/x";
  EXPECT_EQ(ErrorOf("net_memif0,socket=/run/x"),
            "net_memif0 needs role=server at one end and role=client at the other");
  EXPECT_EQ(ErrorOf("net_memif0,role=master,socket=/run/x"),
            "net_memif0 needs role=server at one end and role=client at the other");
  EXPECT_EQ(ErrorOf("net_memif0,role=server"),
            "net_memif0 needs socket=PATH, the same path at both ends");
  EXPECT_EQ(ErrorOf("net_memif0,role=server,socket=/" + std::string(107, 'x')),
            "the socket path of net_memif0 is longer than 107 bytes; choose a shorter one");
  EXPECT_EQ(ErrorOf("net_memif0,role=server,socket=/" + std::string(106, 'x')), "accepted");
  EXPECT_EQ(ErrorOf(good + ",bsize=4223"),
            "bsize of net_memif0 must be from 4224 (the longest frame) to 65535");
  EXPECT_EQ(ErrorOf(good + ",bsize=4224"), "accepted");
  EXPECT_EQ(ErrorOf(good + ",bsize=4224k"),
            "bsize of net_memif0 must be from 4224 (the longest frame) to 65535");
  EXPECT_EQ(ErrorOf(good + ",rsize=15"),
            "rsize of net_memif0 is the binary logarithm of the ring's slots, from 1 to 14");
  EXPECT_EQ(ErrorOf(good + ",id=-1"), "id of net_memif0 must be a number, the same at both ends");
  EXPECT_EQ(ErrorOf(good + ",socket-abstract=maybe"),
            "socket-abstract of net_memif0 must be yes or no");
}

TEST(DevargsTest, AfPacketNeedsAnInterfaceAndOneQueue) {
  EXPECT_EQ(ErrorOf("net_af_packet0"), "net_af_packet0 needs iface=INTERFACE");
  EXPECT_EQ(ErrorOf("net_af_xdp0"), "net_af_xdp0 needs iface=INTERFACE");
  EXPECT_EQ(ErrorOf("net_af_xdp0,iface=eth0,start_queue=3"), "accepted");
  EXPECT_EQ(ErrorOf("net_af_packet0,iface=eth0,qpairs=2"),
            "uroce uses one queue pair of a port: leave qpairs out");
  EXPECT_EQ(ErrorOf("net_af_packet0,iface=eth0,framesz=2048"), "accepted");
}

}  // namespace
}  // namespace uroce::nic
