// Binding, ports and resolution, as cma.c of Linux does them.
#include <gtest/gtest.h>

#include "tests/verbs_provider/rdma_cm/rdma_cm_host.h"
#include "verbs_provider/rdma_cm/routes.h"

namespace uroce::verbs::rdma_cm {
namespace {

constexpr uint16_t kPort = 7'471;
constexpr uint32_t kRemote = 10 << 24 | 99;

class AddressesTest : public testing::Test {
 protected:
  uint16_t PortOf(uint32_t id) {
    return ntohs(AddressIn<sockaddr_in>(host_.Query(id).src_addr).sin_port);
  }
  int SetInt(uint32_t id, uint32_t option, int value) {
    return host_.Write(RDMA_USER_CM_CMD_SET_OPTION,
                       rdma_ucm_set_option{.optval = reinterpret_cast<uintptr_t>(&value),
                                           .id = id,
                                           .level = RDMA_OPTION_ID,
                                           .optname = option,
                                           .optlen = sizeof value});
  }

  Network network_;
  Host host_{network_, 1};
};

TEST_F(AddressesTest, WildcardIsBoundWithoutADevice) {
  const uint32_t id = host_.Create();
  EXPECT_EQ(host_.Bind(id, Any(kPort)), 0);
  const auto answer = host_.Query(id);
  EXPECT_EQ(answer.node_guid, 0u);
  EXPECT_EQ(answer.src_size, sizeof(sockaddr_in));
  EXPECT_EQ(PortOf(id), kPort);
}

TEST_F(AddressesTest, OwnAddressIsBoundToTheDevice) {
  const uint32_t id = host_.Create();
  EXPECT_EQ(host_.Bind(id, Ipv4(host_, kPort)), 0);
  const auto answer = host_.Query(id);
  EXPECT_EQ(answer.node_guid, htobe64(0x1234));
  EXPECT_EQ(answer.port_num, 1);
  EXPECT_EQ(answer.pkey, 0xffff);
  EXPECT_EQ(answer.ibdev_index, 900'000'900u);
}

// cma_any_addr. libfabric would take the address of an id with a device for one that peers can
// reach.
TEST_F(AddressesTest, LoopbackAddressIsBoundWithoutADevice) {
  const uint32_t id = host_.Create();
  EXPECT_EQ(host_.Bind(id, Ipv4(INADDR_LOOPBACK, kPort)), 0);
  EXPECT_EQ(host_.Query(id).node_guid, 0u);
  EXPECT_EQ(PortOf(id), kPort);
  EXPECT_EQ(host_.Listen(id), 0);
  const uint32_t client = host_.Create();
  EXPECT_EQ(host_.Resolve(client, Ipv4(INADDR_LOOPBACK, kPort)), 0);
  EXPECT_EQ(host_.Query(client).node_guid, htobe64(0x1234));
}

TEST_F(AddressesTest, LoopbackAddressOfTheDeviceIsBoundToIt) {
  Host host(network_, 1, Gid::FromIpv4({127, 0, 0, 1}));
  const uint32_t id = host.Create();
  EXPECT_EQ(host.Bind(id, Ipv4(INADDR_LOOPBACK, kPort)), 0);
  EXPECT_EQ(host.Query(id).node_guid, htobe64(0x1234));
}

TEST_F(AddressesTest, AddressOfAnotherHostIsNotAvailable) {
  EXPECT_EQ(host_.Bind(host_.Create(), Ipv4(kRemote, kPort)), EADDRNOTAVAIL);
}

TEST_F(AddressesTest, IdIsBoundOnce) {
  const uint32_t id = host_.Create();
  EXPECT_EQ(host_.Bind(id, Any(kPort)), 0);
  EXPECT_EQ(host_.Bind(id, Any(kPort + 1)), EINVAL);
}

TEST_F(AddressesTest, LinkLocalAddressNeedsAScope) {
  sockaddr_in6 address = Any6(kPort);
  address.sin6_addr.s6_addr[0] = 0xfe;
  address.sin6_addr.s6_addr[1] = 0x80;
  EXPECT_EQ(host_.Bind(host_.Create(), address), EINVAL);
}

TEST_F(AddressesTest, IpoibSpaceIsNotOfRoce) {
  EXPECT_EQ(host_.Bind(host_.Create(RDMA_PS_IPOIB), Ipv4(host_, kPort)), EINVAL);
}

TEST_F(AddressesTest, EphemeralPortsDiffer) {
  std::set<uint16_t> ports;
  for (int i = 0; i < 20; ++i) {
    const uint32_t id = host_.Create();
    ASSERT_EQ(host_.Bind(id, Any(0)), 0);
    const uint16_t port = PortOf(id);
    EXPECT_GE(port, 32'768);
    EXPECT_TRUE(ports.insert(port).second) << port;
  }
}

TEST_F(AddressesTest, PortIsTakenOnceAndFreeAgain) {
  const uint32_t first = host_.Create();
  ASSERT_EQ(host_.Bind(first, Ipv4(host_, kPort)), 0);
  EXPECT_EQ(host_.Bind(host_.Create(), Ipv4(host_, kPort)), EADDRINUSE);
  EXPECT_EQ(host_.Bind(host_.Create(), Any(kPort)), EADDRNOTAVAIL);
  // The same port at another address, or in another port space.
  EXPECT_EQ(host_.Bind(host_.Create(), Ipv4(INADDR_LOOPBACK, kPort)), 0);
  EXPECT_EQ(host_.Bind(host_.Create(RDMA_PS_UDP), Ipv4(host_, kPort)), 0);
  ASSERT_EQ(host_.Destroy(first), 0);
  EXPECT_EQ(host_.Bind(host_.Create(), Ipv4(host_, kPort)), 0);
}

TEST_F(AddressesTest, Ipv4AndIpv6ShareAPortIfBothAreAfOnly) {
  ASSERT_EQ(host_.Bind(host_.Create(), Any(kPort)), 0);
  const uint32_t both = host_.Create();
  EXPECT_EQ(host_.Bind(both, Any6(kPort)), EADDRNOTAVAIL);
  const uint32_t only = host_.Create();
  ASSERT_EQ(SetInt(only, RDMA_OPTION_ID_AFONLY, 1), 0);
  EXPECT_EQ(host_.Bind(only, Any6(kPort)), 0);
}

TEST_F(AddressesTest, ReusedPortIsListenedOnAlone) {
  const uint32_t first = host_.Create();
  const uint32_t second = host_.Create();
  for (const uint32_t id : {first, second}) {
    ASSERT_EQ(SetInt(id, RDMA_OPTION_ID_REUSEADDR, 1), 0);
    ASSERT_EQ(host_.Bind(id, Any(kPort)), 0);
  }
  EXPECT_EQ(host_.Listen(first), EADDRNOTAVAIL);
  ASSERT_EQ(host_.Destroy(second), 0);
  EXPECT_EQ(host_.Listen(first), 0);
  EXPECT_EQ(SetInt(first, RDMA_OPTION_ID_REUSEADDR, 1), EINVAL);
  EXPECT_EQ(SetInt(first, RDMA_OPTION_ID_AFONLY, 1), EINVAL);
}

TEST_F(AddressesTest, PortOfAnotherProcessIsInUse) {
  Host neighbor(network_, 2, host_.gid());  // a process that shares the address
  const uint32_t id = neighbor.Create();
  ASSERT_EQ(neighbor.Bind(id, Any(kPort)), 0);
  EXPECT_EQ(host_.Bind(host_.Create(), Any(kPort)), EADDRINUSE);
  ASSERT_EQ(neighbor.Destroy(id), 0);
  EXPECT_EQ(host_.Bind(host_.Create(), Any(kPort)), 0);
}

TEST_F(AddressesTest, ListeningServiceIsAnnouncedAndWithdrawn) {
  const uint32_t id = host_.Create();
  ASSERT_EQ(host_.Bind(id, Any(kPort)), 0);
  ASSERT_EQ(network_.services.size(), 1u);
  EXPECT_FALSE(network_.services[0].second.listens);
  ASSERT_EQ(host_.Listen(id), 0);
  ASSERT_EQ(network_.services.size(), 1u);
  const Service& service = network_.services[0].second;
  EXPECT_TRUE(service.listens);
  EXPECT_EQ(service.id.value, 0x0106'0000u + kPort);
  EXPECT_EQ(service.address, Gid::FromIpv4({0, 0, 0, 0}));
  ASSERT_EQ(host_.Destroy(id), 0);
  EXPECT_TRUE(network_.services.empty());
}

TEST_F(AddressesTest, ServiceChangesWithTheAddressesBeforeListening) {
  const uint32_t id = host_.Create();
  ASSERT_EQ(host_.Bind(id, Any(kPort)), 0);
  host_.has_address = false;
  ASSERT_EQ(host_.Listen(id), 0);
  ASSERT_EQ(network_.services.size(), 1u);
  EXPECT_EQ(network_.services[0].second.address, Gid{});
  ASSERT_EQ(host_.Destroy(id), 0);
  EXPECT_TRUE(network_.services.empty());
}

TEST_F(AddressesTest, IdThatOnlyConnectsReservesNothing) {
  ASSERT_EQ(host_.Resolve(host_.Create(), Ipv4(kRemote, kPort)), 0);
  EXPECT_TRUE(network_.services.empty());
}

TEST_F(AddressesTest, UnboundIdListensOnAnyPort) {
  const uint32_t id = host_.Create();
  EXPECT_EQ(host_.Listen(id), 0);
  EXPECT_NE(PortOf(id), 0);
  EXPECT_EQ(host_.Listen(id), EINVAL);
}

TEST_F(AddressesTest, ResolvedAddressNamesDeviceAndGids) {
  const uint32_t id = host_.Create();
  ASSERT_EQ(host_.Resolve(id, Ipv4(kRemote, kPort)), 0);
  const auto event = host_.Expect(UserEvent::kAddressResolved);
  EXPECT_EQ(event.id, id);
  EXPECT_EQ(event.status, 0u);
  const auto answer = host_.Query(id);
  EXPECT_NE(answer.node_guid, 0u);
  EXPECT_EQ(AddressIn<sockaddr_in>(answer.src_addr).sin_addr.s_addr, htonl(10 << 24 | 1));
  EXPECT_EQ(AddressIn<sockaddr_in>(answer.dst_addr).sin_port, htons(kPort));
  const auto gids = host_.Query(id, RDMA_USER_CM_QUERY_GID);
  const auto source =
      ParseAddress({reinterpret_cast<const uint8_t*>(&gids.src_addr), sizeof gids.src_addr});
  const auto destination =
      ParseAddress({reinterpret_cast<const uint8_t*>(&gids.dst_addr), sizeof gids.dst_addr});
  ASSERT_TRUE(source && destination);
  EXPECT_EQ(source->gid, host_.gid());
  EXPECT_EQ(destination->gid, Gid::FromIpv4({10, 0, 0, 99}));
  EXPECT_EQ(destination->service_id, 0x0106'0000u + kPort);
  EXPECT_EQ(host_.Resolve(id, Ipv4(kRemote, kPort)), EINVAL);
}

using PathRecord = std::array<uint8_t, sizeof(ib_path_rec_data::path_rec)>;

// The path record of an id that has one path.
PathRecord QueryPath(Host& host, uint32_t id) {
  struct {
    uint32_t path_count;
    uint32_t reserved;
    ib_path_rec_data path;
  } answer{};
  rdma_ucm_query command{};
  command.response = reinterpret_cast<uintptr_t>(&answer);
  command.id = id;
  command.option = RDMA_USER_CM_QUERY_PATH;
  EXPECT_EQ(host.Write(RDMA_USER_CM_CMD_QUERY, command, sizeof answer), 0);
  EXPECT_EQ(answer.path_count, 1u);
  PathRecord record;
  std::memcpy(record.data(), answer.path.path_rec, record.size());
  return record;
}

TEST_F(AddressesTest, RouteIsResolvedAfterTheAddress) {
  const uint32_t id = host_.Create();
  EXPECT_EQ(host_.ResolveRoute(id), EINVAL);
  ASSERT_EQ(host_.Resolve(id, Ipv4(kRemote, kPort)), 0);
  EXPECT_EQ(host_.Connect(id, Host::Parameters(1)), EINVAL);
  EXPECT_EQ(host_.ResolveRoute(id), 0);
  host_.Expect(UserEvent::kAddressResolved);
  host_.Expect(UserEvent::kRouteResolved);

  const PathRecord record = QueryPath(host_, id);
  EXPECT_EQ(0, std::memcmp(&record[24], host_.gid().bytes.data(), 16));
  EXPECT_EQ(record[50], 0xff);       // P_Key
  EXPECT_EQ(record[54], 0x80 | 5);   // exactly 4096
  EXPECT_EQ(record[56], 0x80 | 16);  // packet life time
  rdma_ucm_query_route_resp route{};
  rdma_ucm_query command{};
  command.id = id;
  command.response = reinterpret_cast<uintptr_t>(&route);
  ASSERT_EQ(host_.Write(RDMA_USER_CM_CMD_QUERY_ROUTE, command, sizeof route), 0);
  EXPECT_EQ(route.num_paths, 1u);
  EXPECT_EQ(route.ib_route[0].mtu, 5u);
  EXPECT_EQ(0, std::memcmp(route.ib_route[0].sgid, host_.gid().bytes.data(), 16));
}

// ib_sa_pack_path of Linux: the field has six bits.
TEST_F(AddressesTest, PacketLifeTimeThatIsTooLongLeavesItsSelector) {
  const uint32_t id = host_.Create();
  ASSERT_EQ(host_.SetAckTimeout(id, 255), 0);
  ASSERT_EQ(host_.Resolve(id, Ipv4(kRemote, kPort)), 0);
  ASSERT_EQ(host_.ResolveRoute(id), 0);
  EXPECT_EQ(QueryPath(host_, id)[56], 0x80 | (254 & 63));
}

TEST_F(AddressesTest, SourceAndDestinationAreOfOneFamily) {
  const uint32_t id = host_.Create();
  ASSERT_EQ(host_.Bind(id, Any6(0)), 0);
  EXPECT_EQ(host_.Resolve(id, Ipv4(kRemote, kPort)), EINVAL);
}

// --- addresses that cannot be reached

// A host on a network, whose kernel has the same address as the device.
class ResolutionTest : public testing::Test {
 protected:
  ResolutionTest() {
    host_.has_wire = true;
    host_.hop_limit = 33;
    host_.kernel_route = [this](const nic::RouteQuestion& question) {
      const bool is_routed = question.destination != kUnrouted;
      return nic::KernelRoute{.error = is_routed ? 0 : ENETUNREACH, .source = host_.gid()};
    };
  }

  static constexpr Gid kUnrouted = Gid::FromIpv4({203, 0, 113, 9});
  static constexpr Gid kSilent = Gid::FromIpv4({10, 0, 0, 98});

  Network network_;
  // The loopback address is one that every kernel has.
  Host host_{network_, 1, Gid::FromIpv4({127, 0, 0, 1})};
};

TEST_F(ResolutionTest, WithoutARouteTheIdCanBeUsedAgain) {
  const uint32_t id = host_.Create();
  EXPECT_EQ(host_.Resolve(id, Ipv4(0xcb00'7109, kPort)), ENETUNREACH);
  host_.ExpectNoEvent();
  EXPECT_EQ(host_.Resolve(id, Ipv4(kRemote, kPort)), 0);
  host_.Expect(UserEvent::kAddressResolved);
}

TEST_F(ResolutionTest, HopLimitIsThatOfTheRoute) {
  const uint32_t id = host_.Create();
  ASSERT_EQ(host_.Resolve(id, Ipv4(kRemote, kPort)), 0);
  ASSERT_EQ(host_.ResolveRoute(id), 0);
  EXPECT_EQ(QueryPath(host_, id)[47], 33);
}

TEST_F(ResolutionTest, NeighborThatIsSilentIsAnErrorAfterTheTimeout) {
  host_.silent_neighbors = {kSilent};
  const uint32_t id = host_.Create();
  ASSERT_EQ(host_.Resolve(id, Ipv4(0x0a00'0062, kPort)), 0);
  EXPECT_EQ(host_.Resolve(id, Ipv4(kRemote, kPort)), EINVAL);
  EXPECT_EQ(host_.ResolveRoute(id), EINVAL);
  EXPECT_EQ(host_.agent().NextDeadline(), network_.now + transport::Milliseconds(2'000));
  network_.Advance(transport::Milliseconds(1'999));
  host_.ExpectNoEvent();
  network_.Advance(transport::Milliseconds(1));
  const auto event = host_.Expect(UserEvent::kAddressError);
  EXPECT_EQ(static_cast<int>(event.status), -ETIMEDOUT);
  EXPECT_EQ(host_.agent().NextDeadline(), transport::kNever);
  ASSERT_EQ(host_.Resolve(id, Ipv4(kRemote, kPort)), 0);
  host_.Expect(UserEvent::kAddressResolved);
}

TEST_F(ResolutionTest, NeighborThatAnswersResolvesTheAddress) {
  host_.silent_neighbors = {kSilent};
  const uint32_t id = host_.Create();
  ASSERT_EQ(host_.Resolve(id, Ipv4(0x0a00'0062, kPort)), 0);
  host_.ExpectNoEvent();
  host_.silent_neighbors.clear();
  network_.Advance(transport::Milliseconds(5));
  host_.Expect(UserEvent::kAddressResolved);
  EXPECT_EQ(host_.ResolveRoute(id), 0);
}

TEST_F(ResolutionTest, IdThatWaitsCanBeDestroyed) {
  host_.silent_neighbors = {kSilent};
  const uint32_t id = host_.Create();
  ASSERT_EQ(host_.Resolve(id, Ipv4(0x0a00'0062, kPort)), 0);
  EXPECT_EQ(host_.Destroy(id), 0);
  network_.Advance(transport::Milliseconds(3'000));
  host_.ExpectNoEvent();
}

// --- the GIDs behind addresses

DeviceFacts Facts(bool has_wire, Gid ip) {
  return {.gids = {Gid::LinkLocal({2, 0, 0, 0, 0, 1}), ip}, .has_wire = has_wire};
}
SocketAddress Address(const Gid& gid) {
  SocketAddress address = AnyAddress(gid.IsIpv4Mapped() ? AF_INET : AF_INET6);
  address.gid = gid;
  return address;
}

const Gid kOwn = Gid::FromIpv4({10, 0, 0, 1});
const Gid kOfHost = Gid::FromIpv4({192, 0, 2, 7});
const Gid kDefault = Gid::FromIpv4({127, 0, 0, 1});
const Gid kPeer = Gid::FromIpv4({10, 0, 0, 2});

// The route from any address.
std::optional<Route> RouteTo(const DeviceFacts& facts, const HostFacts& host,
                             const SocketAddress& destination) {
  Route route;
  const int error = FindRoute(facts, host, AnyAddress(destination.family), destination, route);
  return error == 0 ? std::optional(route) : std::nullopt;
}

Gid Destination(const DeviceFacts& facts, const Gid& gid) {
  const HostFacts host{.addresses = {kOfHost, kDefault},
                       .kernel_route = [](const auto&) { return nic::KernelRoute{}; }};
  const auto route = RouteTo(facts, host, Address(gid));
  return route ? route->destination_gid : Gid{};
}

TEST(RoutesTest, AddressesOfTheHostLeadToTheDevice) {
  for (const bool has_wire : {false, true}) {
    EXPECT_EQ(Destination(Facts(has_wire, kOwn), kDefault), kOwn);
    EXPECT_EQ(Destination(Facts(has_wire, kDefault), kDefault), kDefault);
    EXPECT_EQ(Destination(Facts(has_wire, kDefault), kOfHost), kDefault);
  }
  EXPECT_EQ(Destination(Facts(true, kOwn), kOfHost), kOwn);
}

// An entry whose address has gone is skipped, even if any address will do.
TEST(RoutesTest, FreeEntriesAreNoAddresses) {
  const Gid own6 = {{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  const Gid peer6 = {{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
  DeviceFacts facts = Facts(true, {});
  facts.gids.push_back(own6);
  facts.gids.push_back(kOwn);
  for (const Gid& to : {peer6, own6, AnyAddress(AF_INET6).gid}) {
    const auto route = RouteTo(facts, {}, Address(to));
    ASSERT_TRUE(route.has_value());
    EXPECT_EQ(route->source_gid, own6);
    EXPECT_EQ(route->source_gid_index, 2);
  }
  const auto route = RouteTo(facts, {}, Address(kPeer));
  ASSERT_TRUE(route.has_value());
  EXPECT_EQ(route->source_gid_index, 3);
  EXPECT_EQ(CheckLocal(facts, {}, AnyAddress(AF_INET6)), EADDRNOTAVAIL);
}

TEST(RoutesTest, OtherAddressesAreThosePeersHave) {
  for (const bool has_wire : {false, true}) {
    EXPECT_EQ(Destination(Facts(has_wire, kOwn), kPeer), kPeer);
    EXPECT_EQ(Destination(Facts(has_wire, kDefault), kPeer), kPeer);
  }
  const Gid first = Gid::FromIpv4({127, 0, 0, 2});
  const Gid second = Gid::FromIpv4({127, 0, 0, 3});
  EXPECT_EQ(Destination(Facts(true, first), second), second);
  EXPECT_EQ(Destination(Facts(true, kOwn), second), kOwn);
  // Another process may have been given that address.
  EXPECT_EQ(Destination(Facts(false, kOwn), kOfHost), kOfHost);
}

TEST(RoutesTest, Ipv6LoopbackLeadsToAGidOfItsVersion) {
  SocketAddress loopback = AnyAddress(AF_INET6);
  loopback.gid.bytes[15] = 1;
  const DeviceFacts facts = Facts(false, kDefault);
  const auto route = RouteTo(facts, {}, loopback);
  ASSERT_TRUE(route);
  EXPECT_EQ(route->destination_gid, facts.gids[0]);
  EXPECT_EQ(route->source_gid_index, 0);
  EXPECT_EQ(route->source.gid, loopback.gid);
}

TEST(RoutesTest, WithoutAGidOfTheVersionThereIsNoRoute) {
  const DeviceFacts facts{.gids = {Gid::LinkLocal({2, 0, 0, 0, 0, 1})}, .has_wire = true};
  EXPECT_FALSE(RouteTo(facts, {}, Address(kPeer)));
}

// --- the kernel's routes

const Gid kBridge = Gid::FromIpv4({192, 168, 122, 1});
const Gid kFarHost = Gid::FromIpv4({192, 168, 50, 5});

// A host with a bridge for virtual machines, whose address is more like kFarHost than kOwn is.
DeviceFacts FactsWithBridge() {
  DeviceFacts facts = Facts(/*has_wire=*/true, kOwn);
  facts.gids.push_back(kBridge);
  return facts;
}
HostFacts HostWith(std::function<nic::KernelRoute(const nic::RouteQuestion&)> kernel_route) {
  return {.addresses = {kOwn, kBridge}, .kernel_route = std::move(kernel_route)};
}

TEST(RoutesTest, SourceIsThatOfTheKernelsRoute) {
  const HostFacts host = HostWith([](const nic::RouteQuestion& question) {
    EXPECT_EQ(question.destination, kFarHost);
    EXPECT_TRUE(question.source.IsZero());
    return nic::KernelRoute{.source = kOwn};
  });
  const auto route = RouteTo(FactsWithBridge(), host, Address(kFarHost));
  ASSERT_TRUE(route);
  EXPECT_EQ(route->source_gid, kOwn);
  EXPECT_EQ(route->source.gid, kOwn);
  EXPECT_TRUE(route->is_kernels);
}

TEST(RoutesTest, KernelIsAskedForTheRouteOfABoundAddress) {
  const HostFacts host = HostWith([](const nic::RouteQuestion& question) {
    EXPECT_EQ(question.source, kBridge);
    return nic::KernelRoute{.error = EHOSTUNREACH};
  });
  Route route;
  EXPECT_EQ(FindRoute(FactsWithBridge(), host, Address(kBridge), Address(kFarHost), route),
            EHOSTUNREACH);
}

TEST(RoutesTest, WithoutAKernelsRouteThereIsTheKernelsError) {
  const HostFacts host =
      HostWith([](const auto&) { return nic::KernelRoute{.error = ENETUNREACH}; });
  Route route;
  EXPECT_EQ(FindRoute(FactsWithBridge(), host, AnyAddress(AF_INET), Address(kFarHost), route),
            ENETUNREACH);
  // A group is reached without a route.
  const Gid group = Gid::FromIpv4({239, 1, 2, 3});
  EXPECT_EQ(FindRoute(FactsWithBridge(), host, AnyAddress(AF_INET), Address(group), route), 0);
}

// The device was given one address of the host, and the kernel would send from another.
TEST(RoutesTest, AddressThatTheDeviceLacksIsNoSource) {
  int error_from_own = 0;
  const HostFacts host = HostWith([&](const nic::RouteQuestion& question) {
    const bool is_from_own = question.source == kOwn;
    return is_from_own ? nic::KernelRoute{.error = error_from_own, .source = kOwn}
                       : nic::KernelRoute{.source = kBridge};
  });
  const auto route = RouteTo(Facts(/*has_wire=*/true, kOwn), host, Address(kFarHost));
  ASSERT_TRUE(route);
  EXPECT_EQ(route->source_gid, kOwn);
  error_from_own = ENETUNREACH;
  EXPECT_FALSE(RouteTo(Facts(/*has_wire=*/true, kOwn), host, Address(kFarHost)));
}

// cma_acquire_dev_by_src_ip of Linux: no peer would arrive there.
TEST(RoutesTest, AddressOfTheHostThatTheDeviceLacksIsNotBound) {
  const auto check = [](bool has_wire, const Gid& gid) {
    const HostFacts host{.addresses = {kOwn, kBridge, kDefault}, .loopback_addresses = {kDefault}};
    return CheckLocal(Facts(has_wire, kOwn), host, Address(gid));
  };
  EXPECT_EQ(check(true, kOwn), 0);
  EXPECT_EQ(check(true, kBridge), ENODEV);
  EXPECT_EQ(check(true, kDefault), 0);
  EXPECT_EQ(check(true, kFarHost), EADDRNOTAVAIL);
  // Without a NIC all addresses of the host lead to the device.
  EXPECT_EQ(check(false, kBridge), 0);
  // So they do where the device has none of them.
  EXPECT_EQ(CheckLocal(Facts(true, kOwn), {.addresses = {kBridge}}, Address(kBridge)), 0);
}

// A device that DPDK drives: the kernel knows neither its addresses nor its routes.
TEST(RoutesTest, KernelIsNotAskedAboutAddressesThatItLacks) {
  HostFacts host = HostWith([](const auto&) {
    ADD_FAILURE();
    return nic::KernelRoute{};
  });
  host.addresses = {kOfHost};
  const auto route = RouteTo(FactsWithBridge(), host, Address(kFarHost));
  ASSERT_TRUE(route);
  EXPECT_EQ(route->source_gid, kBridge);
  EXPECT_FALSE(route->is_kernels);
  // It has one of them: what the kernel does not reach, the device may reach by another.
  host = HostWith([](const auto&) { return nic::KernelRoute{.error = ENETUNREACH}; });
  host.addresses = {kOwn};
  EXPECT_TRUE(RouteTo(FactsWithBridge(), host, Address(kFarHost)));
}

TEST(RoutesTest, ServiceIsWhereRequestsArrive) {
  const DeviceFacts facts = Facts(false, kDefault);
  EXPECT_EQ(ServiceGid(facts, {kOfHost}, AnyAddress(AF_INET)), Gid::FromIpv4({0, 0, 0, 0}));
  EXPECT_EQ(ServiceGid(facts, {kOfHost}, AnyAddress(AF_INET6)), Gid{});
  EXPECT_EQ(ServiceGid(facts, {kOfHost}, Address(kOfHost)), kDefault);
}

}  // namespace
}  // namespace uroce::verbs::rdma_cm
