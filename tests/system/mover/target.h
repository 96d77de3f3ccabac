#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/system/mover/arena.h"
#include "tests/system/mover/initiator.h"
#include "tests/system/mover/round_plan.h"
#include "tests/system/verbs/handles.h"

namespace mover {

// The end of a stream that is written to, read from and sent to: it posts receive requests, checks
// how they complete, and opens memory windows.
class Target {
 public:
  // `name` appears in error messages. Throws std::runtime_error, as every member does.
  Target(std::string name, ibv_qp* queue_pair, uint32_t arena_bytes);

  // Fills the arena and posts receives. `plan` must outlive the round.
  void StartRound(const RoundPlan& plan);
  // Bind the windows of the round / invalidate those that the peer does not. Each posts one
  // signaled request a window, which the caller awaits; returns how many.
  uint32_t PostBinds();
  uint32_t PostInvalidates();

  void OnCompletion(const ibv_wc& completion);
  bool done() const { return next_completion_ == receives_.size(); }
  std::string Progress() const;

  RemoteArena description() const;
  const Arena& arena() const { return arena_; }
  const std::string& name() const { return name_; }

 private:
  void PostReceives();
  void PostReceive(const Operation& operation);
  void PostSignaled(ibv_send_wr request, const char* call);

  std::string name_;
  ibv_qp* queue_pair_;
  Arena arena_;
  std::vector<system_test::WindowHandle> windows_;
  const RoundPlan* plan_ = nullptr;
  std::vector<const Operation*> receives_;  // the operations that need a receive request
  size_t next_post_ = 0;
  size_t next_completion_ = 0;
};

}  // namespace mover
