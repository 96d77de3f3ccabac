#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "tests/simulation/context.h"
#include "tests/simulation/event_listener.h"
#include "tests/simulation/host.h"
#include "tests/simulation/random.h"
#include "tests/simulation/receive_pool.h"
#include "tests/simulation/scenario.h"
#include "transport/endpoint.h"

namespace uroce::transport::simulation {

// A shared receive queue and the program that keeps it filled. The program also sets its limit,
// resizes it and lets it run dry.
class SharedReceives : public Process, public EventListener {
 public:
  // XRC: the queue has a domain, and its requests complete on one completion queue.
  struct Xrc {
    XrcDomainId domain;
    CompletionQueue* completion_queue;
    uint64_t first_wr_id;
  };

  // `queue_pairs`: how many will ever draw from the queue. Each may end with a request still taken.
  SharedReceives(Context& context, Host& host, const SharedQueueScenario& config,
                 uint32_t queue_pairs, Random random, const Xrc* xrc = nullptr);
  ~SharedReceives() override;

  SharedReceiveQueue* queue() { return queue_.get(); }
  ReceivePool& pool() { return pool_; }

  uint32_t request_bytes() const { return config_.bytes; }
  // The most requests that may be posted or in use at once.
  uint32_t max_requests() const { return 2 * config_.entries + queue_pairs_; }

  // A queue pair begins to draw from the queue. When it ends it may keep the request it has in use.
  void AddUser() { ++in_use_; }
  // The request completes. Each queue pair completes its requests in posting order; between queue
  // pairs there is no order.
  std::optional<PostedReceive> Complete(const Completion& completion);

  void OnActivity() override;
  void OnEvent(EventType type) override;

 private:
  void Wake();
  bool Post();
  void SetLimit();
  void Resize();
  void CheckLimit();

  Context& context_;
  Host& host_;
  SharedQueueScenario config_;
  uint32_t queue_pairs_;
  Random random_;
  ReceivePool pool_;
  std::unique_ptr<SharedReceiveQueue> queue_;
  size_t in_use_ = 0;  // requests that queue pairs may have taken and not completed, at most
  std::map<Qpn, uint64_t> last_wr_ids_;
  uint32_t limit_ = 0;  // the event is due below this
  size_t taken_since_armed_ = 0;
  bool full_ = false;  // when Post() last tried
  bool wake_scheduled_ = false;
};

}  // namespace uroce::transport::simulation
