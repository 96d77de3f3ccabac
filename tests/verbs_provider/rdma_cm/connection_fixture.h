#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

#include "tests/verbs_provider/rdma_cm/rdma_cm_host.h"

namespace uroce::verbs::rdma_cm {

// A server and a client with a wire between them.
class ConnectionFixture : public testing::Test {
 protected:
  static constexpr uint16_t kPort = 7'471;

  uint32_t Bound(Host& host, uint16_t port, uint16_t space = RDMA_PS_TCP) {
    const uint32_t id = host.Create(space);
    EXPECT_EQ(host.Bind(id, Ipv4(host, port)), 0);
    return id;
  }
  uint32_t Listener(Host& host) {
    const uint32_t id = Bound(host, kPort);
    EXPECT_EQ(host.Listen(id), 0);
    return id;
  }
  // Returns the client's id when its request has arrived at the server.
  uint32_t Request() {
    const uint32_t id = client_.Create();
    EXPECT_EQ(client_.Resolve(id, Ipv4(server_, kPort)), 0);
    client_.Expect(UserEvent::kAddressResolved);
    EXPECT_EQ(client_.ResolveRoute(id), 0);
    client_.Expect(UserEvent::kRouteResolved);
    EXPECT_EQ(client_.Connect(id, Host::Parameters(0x111)), 0);
    network_.Run();
    return id;
  }
  struct Ends {
    uint32_t client;
    uint32_t server;
  };
  Ends Connection() {
    Ends ends{};
    ends.client = Request();
    ends.server = server_.Expect(UserEvent::kConnectRequest).id;
    EXPECT_EQ(server_.Accept(ends.server, Host::Parameters(0x222)), 0);
    network_.Run();
    client_.Expect(UserEvent::kConnectResponse);
    EXPECT_EQ(client_.ConfirmReady(ends.client), 0);
    network_.Run();
    server_.Expect(UserEvent::kEstablished);
    return ends;
  }

  // Makes ids of the server and returns those bound to the device: a listener, a connected one and
  // a bound one. Two more are not bound to it: a listener at any address and a new id.
  std::set<uint32_t> ServerIdsOfTheDevice() {
    const uint32_t listener = Listener(server_);
    const uint32_t connected = Connection().server;
    const uint32_t bound = Bound(server_, 0);
    const uint32_t everywhere = server_.Create();
    EXPECT_EQ(server_.Bind(everywhere, Any(kPort + 1)), 0);
    EXPECT_EQ(server_.Listen(everywhere), 0);
    server_.Create();
    return {listener, connected, bound};
  }
  // Expects the event once for each of `ids`, and for no other id of the server.
  void ExpectEachHearsOnce(const std::set<uint32_t>& ids, UserEvent expected) {
    std::set<uint32_t> told;
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto event = server_.Expect(expected);
      EXPECT_EQ(event.status, 0u);
      EXPECT_NE(event.uid, 0u);
      told.insert(event.id);
    }
    EXPECT_EQ(told, ids);
    server_.agent().TakeConnectionEvents();
    server_.ExpectNoEvent();
  }

  Network network_;
  Host server_{network_, 1};
  Host client_{network_, 2};
};

}  // namespace uroce::verbs::rdma_cm
