// The device fails for good: the events of its ids, and the verbs that they still allow.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "tests/verbs_provider/rdma_cm/connection_fixture.h"

namespace uroce::verbs::rdma_cm {
namespace {

class DeviceRemovalTest : public ConnectionFixture {
 protected:
  static void Fail(Host& host) {
    host.has_device_failed = true;
    host.agent().TakeConnectionEvents();
  }
};

// cma_process_remove.
TEST_F(DeviceRemovalTest, EachIdOfTheDeviceGetsTheEventOnce) {
  const std::set<uint32_t> ids = ServerIdsOfTheDevice();
  Fail(server_);
  ExpectEachHearsOnce(ids, UserEvent::kDeviceRemoval);
}

TEST_F(DeviceRemovalTest, IdsOfAWorkingDeviceGetNoEvent) {
  Listener(server_);
  Connection();
  Fail(client_);
  client_.Expect(UserEvent::kDeviceRemoval);
  server_.agent().TakeConnectionEvents();
  server_.ExpectNoEvent();
}

// ucma_get_ctx.
TEST_F(DeviceRemovalTest, IdWithoutItsDeviceCanOnlyBeDestroyed) {
  const uint32_t listener = Listener(server_);
  const uint32_t connected = Connection().server;
  Fail(server_);
  for (int i = 0; i < 2; ++i) server_.Expect(UserEvent::kDeviceRemoval);
  EXPECT_EQ(server_.Listen(listener), ENXIO);
  EXPECT_EQ(server_.Bind(listener, Any(0)), ENXIO);
  EXPECT_EQ(server_.Disconnect(connected), ENXIO);
  ib_uverbs_qp_attr attributes{};
  EXPECT_EQ(server_.InitQp(connected, 1, attributes), ENXIO);
  uint32_t events_reported = 0;
  EXPECT_EQ(server_.Destroy(connected, &events_reported), 0);
  EXPECT_EQ(events_reported, 2u) << "established, and the removal";
  EXPECT_EQ(server_.Destroy(listener, &events_reported), 0);
  EXPECT_EQ(events_reported, 2u) << "a request, and the removal";
  EXPECT_EQ(server_.Destroy(listener), ENOENT);
}

TEST_F(DeviceRemovalTest, RemovalThatWasNotFetchedGoesWithTheId) {
  const uint32_t listener = Listener(server_);
  Fail(server_);
  EXPECT_EQ(server_.Destroy(listener), 0);
  server_.ExpectNoEvent();
}

// cma_acquire_dev.
TEST_F(DeviceRemovalTest, IdsCannotBindToAFailedDevice) {
  const uint32_t older = server_.Create();
  const uint32_t bound = Bound(server_, 0);
  Fail(server_);
  server_.Expect(UserEvent::kDeviceRemoval);
  const uint32_t later = server_.Create();
  for (const uint32_t id : {older, later}) {
    EXPECT_EQ(server_.Bind(id, Ipv4(server_, kPort)), ENODEV);
    EXPECT_EQ(server_.Resolve(id, Ipv4(client_, kPort)), ENODEV);
    EXPECT_EQ(server_.Listen(id), ENODEV);
  }
  EXPECT_EQ(server_.device_opens, 1);
  for (const uint32_t id : {older, bound, later}) EXPECT_EQ(server_.Destroy(id), 0);
  // The device is opened anew once no id is bound to the old one.
  server_.has_device_failed = false;
  Bound(server_, kPort);
  EXPECT_EQ(server_.device_opens, 2);
}

TEST_F(DeviceRemovalTest, BindNoticesAFailedDeviceBeforeItsEvent) {
  Bound(server_, 0);
  server_.has_device_failed = true;
  EXPECT_EQ(server_.Bind(server_.Create(), Ipv4(server_, kPort)), ENODEV);
}

TEST_F(DeviceRemovalTest, RequestThatWasNotFetchedCannotBeAccepted) {
  const uint32_t listener = Listener(server_);
  Request();
  Fail(server_);
  const uint32_t request = server_.Expect(UserEvent::kConnectRequest).id;
  EXPECT_EQ(server_.Expect(UserEvent::kDeviceRemoval).id, listener);
  server_.ExpectNoEvent();
  EXPECT_EQ(server_.Accept(request, Host::Parameters(0x222)), ENXIO);
  EXPECT_EQ(server_.Destroy(request), 0);
}

// The application has not yet given the id a uid.
TEST_F(DeviceRemovalTest, UnacceptedRequestGetsNoEvent) {
  const uint32_t listener = Listener(server_);
  Request();
  const uint32_t request = server_.Expect(UserEvent::kConnectRequest).id;
  Fail(server_);
  EXPECT_EQ(server_.Expect(UserEvent::kDeviceRemoval).id, listener);
  server_.ExpectNoEvent();
  EXPECT_EQ(server_.Accept(request, Host::Parameters(0x222)), ENXIO);
}

TEST_F(DeviceRemovalTest, IdsOfAFailedDeviceGetNoFurtherEvents) {
  Listener(server_);
  const Ends ends = Connection();
  Fail(server_);
  for (int i = 0; i < 2; ++i) server_.Expect(UserEvent::kDeviceRemoval);
  EXPECT_TRUE(network_.services.empty()) << "others may have the port";
  ASSERT_EQ(client_.Disconnect(ends.client), 0);
  network_.Run();
  client_.Expect(UserEvent::kDisconnected);
  Request();
  server_.ExpectNoEvent();
}

TEST_F(DeviceRemovalTest, GroupGoesWithTheId) {
  const uint32_t id = Bound(server_, 0, RDMA_PS_UDP);
  uint32_t member = 0;
  ASSERT_EQ(server_.Join(id, member), 0);
  Fail(server_);
  server_.Expect(UserEvent::kMulticastJoin);
  EXPECT_EQ(server_.Expect(UserEvent::kDeviceRemoval).id, id);
  uint32_t events_reported = 0;
  EXPECT_EQ(server_.Leave(member, events_reported), ENXIO);
  EXPECT_EQ(server_.Destroy(id, &events_reported), 0);
  EXPECT_EQ(events_reported, 2u);
  EXPECT_EQ(server_.Leave(member, events_reported), ENOENT);
}

}  // namespace
}  // namespace uroce::verbs::rdma_cm
