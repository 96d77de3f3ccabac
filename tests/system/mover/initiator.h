#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/system/mover/arena.h"
#include "tests/system/mover/round_plan.h"
#include "tests/system/verbs/handles.h"

namespace mover {

inline constexpr uint32_t kSendQueueDepth = 64;

// The address and the keys of a target's arena. Sent as it lies in memory.
struct RemoteArena {
  static constexpr size_t kMaxWindows = 2;

  uint64_t address;
  std::array<uint32_t, 2> rkeys;
  std::array<uint32_t, kMaxWindows> window_rkeys;  // new ones in every round
};

// The end of a stream that posts operations and checks how they complete.
class Initiator {
 public:
  // `name` appears in error messages. Throws std::runtime_error, as every member does.
  Initiator(std::string name, ibv_qp* queue_pair, uint32_t arena_bytes);

  // Fills the arena. `plan` must outlive the round.
  void StartRound(const RoundPlan& plan);
  void SetRemote(const RemoteArena& remote) { remote_ = remote; }
  // Posts as many operations as the send queue has room for.
  void Post();
  void OnCompletion(const ibv_wc& completion);
  bool done() const { return completed_ == plan_->operations.size(); }
  std::string Progress() const;

  const Arena& arena() const { return arena_; }
  const std::string& name() const { return name_; }

 private:
  // A work request and the memory that it points to.
  struct Request {
    ibv_send_wr wr;
    std::array<ibv_sge, kMaxSges> sges;
  };

  void Fill(const Operation& operation, Request* request);
  void FillRemote(const Operation& operation, ibv_send_wr* wr) const;
  void FillWindow(const Operation& operation, ibv_send_wr* wr);
  size_t PostChain(size_t count);

  std::string name_;
  ibv_qp* queue_pair_;
  Arena arena_;
  system_test::WindowHandle own_window_;
  RemoteArena remote_{};
  const RoundPlan* plan_ = nullptr;
  size_t posted_ = 0;
  size_t completed_ = 0;  // signaled operations and those before them
  std::vector<Request> chain_;
};

}  // namespace mover
