#include "tests/system/mover/target.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "tests/system/mover/completion_check.h"
#include "tests/system/mover/random.h"

namespace mover {

using system_test::Fail;

namespace {

// Linux's rdma_rxe (6.1) invalidates the window that the peer names, but its completion does not
// say so.
bool ReportsInvalidation(const ibv_qp* queue_pair) {
  return !std::string_view(ibv_get_device_name(queue_pair->context->device)).starts_with("rxe");
}

}  // namespace

Target::Target(std::string name, ibv_qp* queue_pair, uint32_t arena_bytes)
    : name_(std::move(name)), queue_pair_(queue_pair), arena_(queue_pair->pd, arena_bytes) {
  for (size_t i = 0; i < RemoteArena::kMaxWindows; ++i) {
    system_test::WindowHandle window(ibv_alloc_mw(queue_pair->pd, IBV_MW_TYPE_2));
    if (window == nullptr) Fail("ibv_alloc_mw", errno);
    windows_.push_back(std::move(window));
  }
}

void Target::StartRound(const RoundPlan& plan) {
  plan_ = &plan;
  next_post_ = 0;
  next_completion_ = 0;
  receives_.clear();
  for (const Operation& operation : plan.operations) {
    if (ConsumesReceive(operation.kind)) receives_.push_back(&operation);
  }
  FillWithPattern(arena_.bytes(), plan.remote_seed);
  PostReceives();
}

void Target::PostReceives() {
  const size_t limit = std::min(receives_.size(), next_completion_ + plan_->receives_posted);
  while (next_post_ < limit) PostReceive(*receives_[next_post_++]);
}

void Target::PostReceive(const Operation& operation) {
  std::array<ibv_sge, kMaxSges> sges;
  for (size_t i = 0; i < operation.receive.size(); ++i) {
    sges[i] = arena_.Sge(operation.receive[i]);
  }
  ibv_recv_wr request{};
  request.wr_id = ReceiveWrId(operation);
  request.sg_list = sges.data();
  request.num_sge = static_cast<int>(operation.receive.size());
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(queue_pair_, &request, &bad);
  if (error != 0) Fail(name_ + ": ibv_post_recv", error);
}

uint32_t Target::PostBinds() {
  for (size_t i = 0; i < plan_->windows.size(); ++i) {
    ibv_mw* window = windows_[i].get();
    ibv_send_wr request{};
    request.opcode = IBV_WR_BIND_MW;
    request.bind_mw.mw = window;
    request.bind_mw.rkey = ibv_inc_rkey(window->rkey);
    request.bind_mw.bind_info = {
        .mr = arena_.region(0),
        .addr = arena_.address() + plan_->windows[i].offset,
        .length = plan_->windows[i].length,
        .mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
    PostSignaled(request, "bind_window");
    // The poster keeps the key of a type 2 window; rxe finds the window by it.
    window->rkey = request.bind_mw.rkey;
  }
  return static_cast<uint32_t>(plan_->windows.size());
}

uint32_t Target::PostInvalidates() {
  uint32_t count = 0;
  for (size_t i = 0; i < plan_->windows.size(); ++i) {
    if (plan_->windows[i].is_invalidated_by_peer) continue;
    ibv_send_wr request{};
    request.opcode = IBV_WR_LOCAL_INV;
    request.invalidate_rkey = windows_[i]->rkey;
    PostSignaled(request, "local_inv");
    ++count;
  }
  return count;
}

void Target::PostSignaled(ibv_send_wr request, const char* call) {
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(queue_pair_, &request, &bad);
  if (error != 0) Fail(name_ + ": ibv_post_send of '" + call + "'", error);
}

void Target::OnCompletion(const ibv_wc& completion) {
  if (next_completion_ == next_post_) throw std::runtime_error(name_ + ": a receive too many");
  const Operation& operation = *receives_[next_completion_];
  std::optional<uint32_t> invalidated;
  if (operation.window != kNoWindow && ReportsInvalidation(queue_pair_)) {
    invalidated = windows_[static_cast<size_t>(operation.window)]->rkey;
  }
  CheckReceiveCompletion(completion, operation, invalidated,
                         name_ + ", receive " + std::to_string(next_completion_) + " for a " +
                             std::string(NameOf(operation.kind)));
  ++next_completion_;
  PostReceives();
}

std::string Target::Progress() const {
  return name_ + ": " + std::to_string(next_completion_) + " received of " +
         std::to_string(receives_.size());
}

RemoteArena Target::description() const {
  RemoteArena remote{.address = arena_.address(),
                     .rkeys = {arena_.region(0)->rkey, arena_.region(1)->rkey},
                     .window_rkeys = {}};
  for (size_t i = 0; i < windows_.size(); ++i) remote.window_rkeys[i] = windows_[i]->rkey;
  return remote;
}

}  // namespace mover
