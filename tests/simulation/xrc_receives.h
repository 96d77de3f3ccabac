#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/simulation/completions.h"
#include "tests/simulation/context.h"
#include "tests/simulation/host.h"
#include "tests/simulation/random.h"
#include "tests/simulation/shared_receives.h"
#include "transport/endpoint.h"

namespace uroce::transport::simulation {

// The shared receive queues of XRC on a host. A message to any target of the host uses the queue
// that the message names, and completes on one completion queue.
class XrcReceives : public Process {
 public:
  static constexpr XrcDomainId kDomain{1};
  static constexpr size_t kQueues = 2;
  // Handles a completion of its target. Returns whether the completion counts as solicited.
  using Handler = std::function<bool(const Completion&)>;

  // `targets`: how many there will ever be; each may end with a request still taken. `lenient`: any
  // completion may come.
  XrcReceives(Context& context, Host& host, const SharedQueueScenario& config, uint32_t targets,
              bool lenient, Random random);

  Srqn srqn(size_t queue) { return queues_[queue]->queue()->srqn(); }
  uint32_t request_bytes() const { return queues_[0]->request_bytes(); }

  // The target begins to receive.
  void AddTarget(Qpn qpn, Handler handler);
  // Hands the completions to their targets.
  void Poll();
  void OnActivity() override { Poll(); }

  // QueueOf: the queue that the completed request was posted to. IndexOf: the number of that queue.
  SharedReceives& QueueOf(const Completion& completion) { return *queues_[IndexOf(completion)]; }
  static size_t IndexOf(const Completion& completion) {
    return completion.wr_id >> kIndexShift & 1;
  }

 private:
  static constexpr int kIndexShift = 62;

  Context& context_;
  std::unique_ptr<Completions> completions_;
  std::vector<std::unique_ptr<SharedReceives>> queues_;
  std::map<Qpn, Handler> targets_;
};

}  // namespace uroce::transport::simulation
