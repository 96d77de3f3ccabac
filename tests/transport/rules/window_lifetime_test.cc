// Memory windows that outlive their queue pair.

#include <gtest/gtest.h>

#include <vector>

#include "transport/endpoint.h"

namespace uroce::transport {
namespace {

constexpr PdId kPd{7};

// IBA o10-2.2.5: the window can still be deallocated and the region deregistered (10.6.7.2.6).
TEST(WindowLifetimeTest, WindowOutlivesTheQueuePairItIsBoundTo) {
  EndpointConfig config;
  config.gids = {Gid::FromIpv4({192, 0, 2, 1})};
  config.first_qpn = Qpn{0x100};
  config.qpn_count = 4;
  Endpoint endpoint(config);
  MemoryTable& memory = endpoint.memory();
  const auto cq = endpoint.CreateCompletionQueue(16, nullptr);

  QpInitAttributes init;
  init.pd = kPd;
  init.send_cq = cq.get();
  init.receive_cq = cq.get();
  QueuePair* qp = nullptr;
  ASSERT_EQ(endpoint.CreateQueuePair(init, &qp), Status::kOk);
  const Qpn qpn = qp->qpn();

  std::vector<uint8_t> bytes(64);
  const AccessFlags access(AccessFlags::kLocalWrite | AccessFlags::kWindowBind);
  const auto region = memory.Register({kPd, 0, bytes.data(), bytes.size(), access});
  const auto unbound = memory.AllocateWindow(kPd, WindowType::kType2);
  const RKey bound{unbound->value + 1};
  ASSERT_EQ(memory.BindWindow(kPd, qpn, *unbound, bound,
                              {*region, 0, 64, AccessFlags(AccessFlags::kRemoteRead)}),
            Status::kOk);

  const auto reached = [&] {
    return memory.RemoteAddress(kPd, qpn, bound, 0, 64, AccessFlags::kRemoteRead);
  };
  EXPECT_EQ(reached(), bytes.data());
  endpoint.DestroyQueuePair(qp);
  EXPECT_EQ(reached(), nullptr) << "the next queue pair of this number must not have it";
  EXPECT_EQ(memory.Deregister(*region), Status::kBusy);
  EXPECT_EQ(memory.DeallocateWindow(bound), Status::kOk);
  EXPECT_EQ(memory.Deregister(*region), Status::kOk);
}

}  // namespace
}  // namespace uroce::transport
