// The device loses an address: the ids that get the event, and their state afterwards.
#include <gtest/gtest.h>

#include <cerrno>
#include <set>

#include "tests/verbs_provider/rdma_cm/connection_fixture.h"

namespace uroce::verbs::rdma_cm {
namespace {

class AddressChangeTest : public ConnectionFixture {
 protected:
  static void SetAddress(Host& host, bool is_there) {
    host.has_address = is_there;
    host.agent().TakeConnectionEvents();
  }
};

TEST_F(AddressChangeTest, EachIdOfTheAddressGetsTheEventOnce) {
  const std::set<uint32_t> ids = ServerIdsOfTheDevice();
  SetAddress(server_, false);
  ExpectEachHearsOnce(ids, UserEvent::kAddressChange);
  SetAddress(server_, true);
  server_.ExpectNoEvent();
}

TEST_F(AddressChangeTest, IdGetsTheEventOfItsSourceAddressOnly) {
  Listener(server_);
  const uint32_t id = client_.Create();
  ASSERT_EQ(client_.Resolve(id, Ipv4(server_, kPort)), 0);
  client_.Expect(UserEvent::kAddressResolved);
  SetAddress(server_, false);
  client_.agent().TakeConnectionEvents();
  client_.ExpectNoEvent();
  SetAddress(client_, false);
  EXPECT_EQ(client_.Expect(UserEvent::kAddressChange).id, id);
  client_.ExpectNoEvent();
}

TEST_F(AddressChangeTest, LaterChangesRaiseNoEventForAnAddressThatIsGone) {
  const uint32_t id = Bound(server_, 0);
  SetAddress(server_, false);
  EXPECT_EQ(server_.Expect(UserEvent::kAddressChange).id, id);
  server_.other_gid = Gid::FromIpv4({10, 0, 0, 99});
  SetAddress(server_, false);
  server_.ExpectNoEvent();
}

TEST_F(AddressChangeTest, AddressThatComesBackMayGoAgain) {
  const uint32_t id = Bound(server_, 0);
  for (int i = 0; i < 2; ++i) {
    SetAddress(server_, false);
    EXPECT_EQ(server_.Expect(UserEvent::kAddressChange).id, id);
    SetAddress(server_, true);
    server_.ExpectNoEvent();
  }
}

TEST_F(AddressChangeTest, IdOfAnAddressThatStaysGetsNoEvent) {
  sockaddr_in6 link_local = Any6(kPort);
  const Gid gid = Gid::LinkLocal({2, 0, 0, 0, 0, 1});
  std::memcpy(&link_local.sin6_addr, gid.bytes.data(), gid.bytes.size());
  link_local.sin6_scope_id = 2;
  const uint32_t id = server_.Create();
  ASSERT_EQ(server_.Bind(id, link_local), 0);
  SetAddress(server_, false);
  server_.ExpectNoEvent();
}

// As in Linux the event is only a hint: no connection ends.
TEST_F(AddressChangeTest, ConnectionStays) {
  Listener(server_);
  const Ends ends = Connection();
  SetAddress(client_, false);
  EXPECT_EQ(client_.Expect(UserEvent::kAddressChange).id, ends.client);
  SetAddress(client_, true);
  ASSERT_EQ(client_.Disconnect(ends.client), 0);
  network_.Run();
  server_.Expect(UserEvent::kDisconnected);
  uint32_t events_reported = 0;
  EXPECT_EQ(client_.Destroy(ends.client, &events_reported), 0);
  EXPECT_EQ(events_reported, 4u) << "address, route, response and the change";
}

// ucma_event_handler: the application has not yet given the id a uid.
TEST_F(AddressChangeTest, UnacceptedRequestGetsNoEvent) {
  const uint32_t listener = Listener(server_);
  Request();
  server_.Expect(UserEvent::kConnectRequest);
  SetAddress(server_, false);
  EXPECT_EQ(server_.Expect(UserEvent::kAddressChange).id, listener);
  server_.ExpectNoEvent();
}

TEST_F(AddressChangeTest, DeviceThatIsGoneHasNoAddressesToChange) {
  Bound(server_, 0);
  server_.has_device_failed = true;
  SetAddress(server_, false);
  server_.Expect(UserEvent::kDeviceRemoval);
  server_.ExpectNoEvent();
}

}  // namespace
}  // namespace uroce::verbs::rdma_cm
