#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <span>
#include <vector>

#include "tests/system/verbs/device.h"
#include "tests/system/verbs/handles.h"
#include "tests/system/verbs/rc_queue_pair.h"

namespace mesh {

// Names a lane: the members at its ends, and its index among their lanes.
struct LaneName {
  uint32_t ours;
  uint32_t theirs;
  uint32_t number;
};

// The data with which the peer can use a lane. Sent as it lies in memory.
struct LaneAddress {
  system_test::QueuePairAddress queue_pair;
  uint64_t inbox;
  uint32_t rkey;
};

// A reliable connection whose ends take turns. A turn is a WRITE into the peer's inbox, a READ that
// fetches it back, and a SEND that hands the turn over; their content depends only on the sender
// and on the number of the turn. So each end verifies every byte that it sees:
//
//   it is our turn --WRITE, READ, SEND--> it is theirs --their SEND came, all ours completed--> ...
class Lane {
 public:
  // The completion queue must hold kMaxCompletions for each lane. Throws std::runtime_error, as
  // every member does, also if a byte is wrong.
  Lane(const system_test::Device& device, ibv_pd* domain, ibv_cq* completions,
       const LaneName& name);

  static constexpr int kMaxCompletions = 8;

  const LaneName& name() const { return name_; }
  uint32_t queue_pair_number() const { return queue_pair_.get()->qp_num; }
  LaneAddress address() const;
  void Connect(const LaneAddress& peer, const system_test::RcSettings& settings);

  // Takes the turn if it is ours.
  void Advance();
  // Sends a request that needs an answer, so that a dead peer is noticed in either end's turn.
  void Probe();
  void OnCompletion(const ibv_wc& completion);

  // None of our requests is outstanding.
  bool is_quiet() const { return outstanding_ == 0; }
  // The status of the first request that failed; IBV_WC_SUCCESS if none did.
  ibv_wc_status failure() const { return failure_; }
  uint64_t verified_turns() const { return turns_received_; }
  uint64_t verified_bytes() const { return verified_bytes_; }

 private:
  enum class Buffer { kOutgoing, kInbox, kFetched, kMessage, kReceived, kCount };

  std::span<uint8_t> bytes(Buffer buffer);
  ibv_sge Sge(Buffer buffer, uint32_t length);
  void PostReceive();
  void VerifyTheirTurn(uint32_t message_bytes);
  void Verify(Buffer buffer, uint32_t length, uint64_t seed, const char* what);

  LaneName name_;
  std::vector<uint8_t> memory_;
  system_test::RegionHandle region_;
  system_test::RcQueuePair queue_pair_;
  LaneAddress peer_{};
  bool is_our_turn_ = false;
  uint32_t outstanding_ = 0;
  uint64_t turns_sent_ = 0;
  uint64_t turns_received_ = 0;
  uint64_t verified_bytes_ = 0;
  ibv_wc_status failure_ = IBV_WC_SUCCESS;
};

}  // namespace mesh
