#include "dpdk_nic/port/fabric/fabric_xrc_domains.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "dpdk_nic/port/fabric/fabric_port.h"
#include "tests/dpdk_nic/port/fabric/fabric_port_fixture.h"

namespace uroce::nic {
namespace {

class FabricXrcDomainsTest : public FabricPortTest {
 protected:
  FakeUroced::Client& ClientOf(const FabricPort& port) { return uroced_->client(BlockOf(port)); }

  void StopUroced() { uroced_.reset(); }
  void StartUroced(FabricPort& port) {
    uroced_ = std::make_unique<FakeUroced>(fabric_, like_);
    const uint32_t before = port.attachments();
    while (port.attachments() == before) ServeAll(port);
  }
};

TEST_F(FabricXrcDomainsTest, XrcDomainIsOpenedAndClosed) {
  const auto port = NewPort();
  const PacketPort::XrcDomain domain = {.handle = 4, .fd = 0, .creates = true, .exclusive = false};
  EXPECT_FALSE(port->OpenXrcDomain(domain).is_answered);
  ServeAll(*port);
  const PacketPort::XrcOpening opening = port->OpenXrcDomain(domain);
  EXPECT_TRUE(opening.is_answered);
  EXPECT_EQ(opening.error, 0);
  EXPECT_EQ(opening.key, (transport::XrcKey{{1, 2, 3}}));
  ASSERT_EQ(ClientOf(*port).opened.size(), 1u);
  EXPECT_EQ(ClientOf(*port).opened[0].creates, 1u);
  port->CloseXrcDomain(4);
  EXPECT_FALSE(port->IsXrcDomainClosed(4));
  ServeAll(*port);
  EXPECT_TRUE(port->IsXrcDomainClosed(4));
  EXPECT_EQ(ClientOf(*port).closed, std::vector<uint64_t>{4});
}

TEST_F(FabricXrcDomainsTest, RefusalOfAnXrcDomainSaysWhy) {
  const auto port = NewPort();
  const PacketPort::XrcDomain domain = {.handle = 4, .fd = 0, .creates = true, .exclusive = true};
  uroced_->xrc_error = EINVAL;
  EXPECT_FALSE(port->OpenXrcDomain(domain).is_answered);
  ServeAll(*port);
  EXPECT_EQ(port->OpenXrcDomain(domain).error, EINVAL);
  port->CloseXrcDomain(4);
  ServeAll(*port);
  EXPECT_TRUE(ClientOf(*port).closed.empty()) << "it was not opened";
}

TEST_F(FabricXrcDomainsTest, NewUrocedIsToldOfXrcDomains) {
  const auto port = NewPort();
  const PacketPort::XrcDomain domain = {.handle = 4, .fd = 0, .creates = true, .exclusive = true};
  EXPECT_FALSE(port->OpenXrcDomain(domain).is_answered);
  ServeAll(*port);
  const transport::XrcKey key = port->OpenXrcDomain(domain).key;
  StopUroced();
  ServeAll(*port);
  StartUroced(*port);
  ServeAll(*port);
  ASSERT_EQ(ClientOf(*port).opened.size(), 1u);
  EXPECT_EQ(ClientOf(*port).opened[0].key, key);
}

}  // namespace
}  // namespace uroce::nic
