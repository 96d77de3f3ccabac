#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/transport/linked_processes.h"
#include "transport/limits.h"
#include "transport/peer_progress.h"
#include "transport/xrc_executors.h"

namespace uroce::transport {

inline constexpr XrcDomainId kDomain{5};
inline constexpr XrcKey kKey{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};
inline constexpr uint32_t kMtuBytes = 1'024;
inline constexpr uint32_t kQueueDepth = 64;
inline constexpr uint32_t kReceiveBytes = 64 << 10;
inline constexpr uint64_t kReceives = 512 << 10;  // offset of the memory of receive requests

// A process with a shared receive queue of the domain, and the completion queue of that.
struct Process : TestHost {
  explicit Process(uint32_t block, PeerProgress* progress = nullptr)
      : TestHost(Config(block, progress)), number(block) {
    srq_cq = endpoint.CreateCompletionQueue(256, nullptr);
    srq = endpoint.CreateSharedReceiveQueue({.pd = kTestPd,
                                             .max_work_requests = kQueueDepth,
                                             .max_sges = 1,
                                             .xrc_domain = kDomain,
                                             .completion_queue = srq_cq.get()});
    EXPECT_EQ(endpoint.PublishXrcQueue(*srq), Status::kOk);
    endpoint.xrc_executors().Share(kDomain, kKey);
  }

  Srqn srqn() const { return srq->srqn(); }
  void PostReceive(uint64_t wr_id, uint32_t bytes = kReceiveBytes) {
    const ScatterGatherEntry sge = {address(kReceives), bytes, key};
    ASSERT_EQ(srq->Post({wr_id, {&sge, 1}}), Status::kOk);
  }
  std::vector<Completion> Received() {
    std::vector<Completion> completions(64);
    completions.resize(srq_cq->Poll(completions));
    return completions;
  }
  bool HasReceived(const std::vector<uint8_t>& bytes) const {
    return std::equal(bytes.begin(), bytes.end(), memory.begin() + kReceives);
  }
  std::vector<EventType> Events() {
    std::vector<EventType> types;
    while (const auto event = endpoint.TakeEvent()) types.push_back(event->type);
    return types;
  }

  static EndpointConfig Config(uint32_t block, PeerProgress* progress) {
    EndpointConfig config = ProcessConfig(block, /*has_wire=*/true);
    config.peer_progress = progress;
    return config;
  }

  const uint32_t number;
  std::unique_ptr<CompletionQueue> srq_cq;
  std::unique_ptr<SharedReceiveQueue> srq;
};

inline std::vector<uint8_t> Pattern(size_t bytes, uint8_t first = 1) {
  std::vector<uint8_t> pattern(bytes);
  for (size_t i = 0; i < bytes; ++i) pattern[i] = static_cast<uint8_t>(first + i * 7 + i / 251);
  return pattern;
}

inline size_t QueuePairsOf(const Process& process) {
  size_t count = 0;
  for (uint32_t i = 0; i < kMaxQps; ++i) {
    if (process.endpoint.Find({process.number * kMaxQps + i}) != nullptr) ++count;
  }
  return count;
}

}  // namespace uroce::transport
