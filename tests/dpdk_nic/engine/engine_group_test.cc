#include "dpdk_nic/engine/engine_group.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "tests/dpdk_nic/engine/engine_port_fixture.h"

namespace uroce::nic {
namespace {

using transport::Endpoint;
using transport::QpState;
using transport::Status;

// An engine, with its port and its events for the test to look at.
struct Watched {
  std::unique_ptr<Engine> Make(uint32_t block, transport::MemoryTable* memory) {
    auto scripted = std::make_unique<ScriptedPort>();
    port = scripted.get();
    transport::EndpointConfig config;
    config.mac = port->mac();
    config.gids = {transport::Gid::LinkLocal(config.mac)};
    config.has_wire = false;
    config.first_qpn = {block * transport::kMaxQps};
    config.memory = memory;
    Engine::Options options;
    options.event_sink = [this](const transport::Event& event) { events.push_back(event.type); };
    auto made = std::make_unique<Engine>(std::move(scripted), config, std::move(options));
    engine = made.get();
    return made;
  }

  ScriptedPort* port = nullptr;
  std::vector<transport::EventType> events;  // under the engine's lock
  Engine* engine = nullptr;
};

class EngineGroupTest : public ::testing::Test {
 protected:
  void SetUp() override { group.Add(second.Make(2, &group.memory())); }

  Watched first, second;
  EngineGroup group{first.Make(1, nullptr)};
};

TEST_F(EngineGroupTest, RegionOfOneIsKnownToAll) {
  const auto key = [&] {
    const EngineGroup::Hold hold(group);
    return group.memory().Register({.pd = {1}, .length = 8, .access = {}});
  }();
  ASSERT_TRUE(key.has_value());
  for (Engine* engine : group.All()) {
    engine->WithEndpoint(
        [&](Endpoint& endpoint) { EXPECT_EQ(endpoint.memory().regions_in_use(), 1u); });
  }
}

TEST_F(EngineGroupTest, HoldKeepsAllFromWorking) {
  for (const bool are_united : {false, true}) {
    if (are_united) group.Unite();
    {
      const EngineGroup::Hold hold(group);
      for (const Watched* watched : {&first, &second}) {
        const int before = watched->port->receive_bursts;
        EXPECT_FALSE(watched->engine->TryRunOnce());
        EXPECT_EQ(watched->port->receive_bursts, before);
      }
    }
    for (const Watched* watched : {&first, &second}) {
      const int before = watched->port->receive_bursts;
      EXPECT_TRUE(WaitUntil([&] {
        watched->engine->TryRunOnce();
        return watched->port->receive_bursts > before;
      }));
    }
  }
}

TEST_F(EngineGroupTest, DriverOfOneEngineDrivesAllOnceEnginesAreUnited) {
  EXPECT_TRUE(WaitUntil([&] {
    first.engine->TryRunOnce();
    return first.port->receive_bursts > 0;
  }));
  EXPECT_EQ(second.port->receive_bursts, 0);
  group.Unite();
  EXPECT_TRUE(WaitUntil([&] {
    first.engine->TryRunOnce();
    return second.port->receive_bursts > 0;
  }));
}

// A queue pair of the second engine completes in a completion queue of the first.
TEST_F(EngineGroupTest, UnitedEnginesCompleteInEachOthersQueues) {
  group.Unite();
  int queue_context = 0;
  auto cq = first.engine->WithEndpoint([&](Endpoint& endpoint) {
    auto made = endpoint.CreateCompletionQueue(16, &queue_context, /*timed=*/true);
    made->Arm(transport::CompletionQueue::NotifyOn::kAny);
    return made;
  });
  using M = transport::QpAttributeMask;
  const transport::QpInitAttributes init = {.pd = {1},
                                            .type = transport::QpType::kUnreliableDatagram,
                                            .send_cq = cq.get(),
                                            .receive_cq = cq.get(),
                                            .capabilities = {.max_receive_wr = 1}};
  transport::QpAttributes attributes;
  attributes.port_num = 1;
  transport::QueuePair* qp = nullptr;
  second.engine->WithEndpoint([&](Endpoint& endpoint) {
    ASSERT_EQ(endpoint.CreateQueuePair(init, &qp), Status::kOk);
    attributes.state = QpState::kInit;
    ASSERT_EQ(qp->Modify(attributes, M::kState | M::kPkeyIndex | M::kPort | M::kQkey), Status::kOk);
    ASSERT_EQ(qp->PostReceive({.wr_id = 7, .sges = {}}), Status::kOk);
  });

  // With both progress threads asleep, no thread but the test's makes a pass.
  for (const Watched* watched : {&first, &second}) {
    ScriptedPort& port = *watched->port;
    ASSERT_TRUE(WaitUntil([&] { return port.sleeps >= 2 && port.is_asleep; }));
  }
  const transport::Time before = first.engine->Now();
  second.engine->WithEndpoint([&](Endpoint&) {
    attributes.state = QpState::kError;
    ASSERT_EQ(qp->Modify(attributes, M::kState), Status::kOk);
  });
  // Checked inside the verb: its end would deliver the event, too.
  first.engine->WithEndpoint(
      [&](Endpoint&) { EXPECT_EQ(first.events, std::vector{transport::EventType::kCompletion}); });
  const transport::Time after = first.engine->Now();
  transport::Completion completion;
  transport::Time time;
  ASSERT_TRUE(cq->PollOne(completion, time));
  EXPECT_EQ(completion.wr_id, 7u);
  EXPECT_GE(time, before);
  EXPECT_LE(time, after);

  second.engine->WithEndpoint([&](Endpoint& endpoint) { endpoint.DestroyQueuePair(qp); });
  first.engine->WithEndpoint(
      [&](Endpoint& endpoint) { endpoint.DestroyCompletionQueue(std::move(cq)); });
}

}  // namespace
}  // namespace uroce::nic
