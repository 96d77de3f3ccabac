#include "tests/verbs_provider/loopback.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace uroce::verbs::testing {

AnnouncedPair::AnnouncedPair(Host& host)
    : channel(ibv_create_comp_channel(host.context.get())),
      send_cq(host.CreateCq(16)),
      receive_cq(host.CreateCq(16, channel.get())) {
  ibv_qp_init_attr attr = RcAttributes(send_cq.get(), receive_cq.get());
  a.reset(ibv_create_qp(host.pd.get(), &attr));
  b.reset(ibv_create_qp(host.pd.get(), &attr));
  ConnectLoopback(a.get(), b.get());
}

void ExpectWaitsForAcknowledgement(const std::function<int()>& destroy,
                                   const std::function<void()>& acknowledge) {
  std::atomic<bool> acknowledged{false};
  std::thread destroyer([&] {
    EXPECT_EQ(destroy(), 0);
    EXPECT_TRUE(acknowledged.load());
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  acknowledged.store(true);
  acknowledge();
  destroyer.join();
}

}  // namespace uroce::verbs::testing
