// Which services a process of a fabric claims.
#include <gtest/gtest.h>

#include <cerrno>
#include <set>

#include "tests/dpdk_nic/port/fabric/fabric_port_fixture.h"

namespace uroce::nic {
namespace {

using transport::Gid;
using ServiceState = PacketPort::ServiceState;
using FabricServicesTest = FabricPortTest;

// An IPv4 and an IPv6 client name the listener differently.
TEST_F(FabricServicesTest, ServiceAtAllAddressesIsClaimedAtEachOfTheProcess) {
  const auto port = NewPort();
  const Gid ip = Gid::FromIpv4({127, 0, 0, 1});
  const Gid link_local = Gid::LinkLocal(port->mac());
  const Gid all_of_ipv4 = Gid::FromIpv4({});
  std::set<Gid> claimed;
  uroced_->listen_error = [&](const control::Listen& listen) {
    claimed.insert(listen.claim.address);
    return listen.claim.service_id == 4 && listen.claim.address == link_local ? EADDRINUSE : 0;
  };
  const auto reserve = [&](const PacketPort::Service& service) {
    claimed.clear();
    ServiceState state;
    while ((state = port->ReserveService(service)) == ServiceState::kPending) {
      ServeAll(*port);
    }
    return state;
  };
  using Gids = std::set<Gid>;
  EXPECT_EQ(reserve({.id = {1}, .address = {}}), ServiceState::kReserved);
  EXPECT_EQ(claimed, (Gids{ip, link_local}));
  EXPECT_EQ(reserve({.id = {2}, .address = all_of_ipv4}), ServiceState::kReserved);
  EXPECT_EQ(claimed, Gids{ip});
  EXPECT_EQ(reserve({.id = {3}, .address = {}, .only_ipv6 = true}), ServiceState::kReserved);
  EXPECT_EQ(claimed, Gids{link_local});
  EXPECT_EQ(reserve({.id = {5}, .address = ip}), ServiceState::kReserved);
  EXPECT_EQ(claimed, Gids{ip});

  const PacketPort::Service in_use{.id = {4}, .address = {}};
  EXPECT_EQ(reserve(in_use), ServiceState::kInUse);
  EXPECT_FALSE(port->IsReleased(in_use)) << "the other address is given back";
  ServeAll(*port);
  EXPECT_TRUE(port->IsReleased(in_use));
}

}  // namespace
}  // namespace uroce::nic
