#include "tests/system/mover/initiator.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>

#include "tests/system/mover/completion_check.h"
#include "tests/system/mover/model.h"
#include "tests/system/mover/random.h"

namespace mover {
namespace {

using system_test::Fail;

// Requests that are posted in one call.
constexpr size_t kMaxChain = 4;
// Inline data is copied without looking at the key (ibv_post_send(3)).
constexpr uint32_t kKeyOfNothing = 0xdeadbeef;

ibv_wr_opcode OpcodeOf(Kind kind) {
  switch (kind) {
    case Kind::kSend:
      return IBV_WR_SEND;
    case Kind::kSendImmediate:
      return IBV_WR_SEND_WITH_IMM;
    case Kind::kSendInvalidate:
      return IBV_WR_SEND_WITH_INV;
    case Kind::kWrite:
      return IBV_WR_RDMA_WRITE;
    case Kind::kWriteImmediate:
      return IBV_WR_RDMA_WRITE_WITH_IMM;
    case Kind::kRead:
      return IBV_WR_RDMA_READ;
    case Kind::kCompareSwap:
      return IBV_WR_ATOMIC_CMP_AND_SWP;
    case Kind::kFetchAdd:
      return IBV_WR_ATOMIC_FETCH_AND_ADD;
    case Kind::kBindWindow:
      return IBV_WR_BIND_MW;
    case Kind::kLocalInvalidate:
      break;
  }
  return IBV_WR_LOCAL_INV;
}

unsigned FlagsOf(const Operation& operation) {
  unsigned flags = 0;
  if (operation.is_signaled) flags |= IBV_SEND_SIGNALED;
  if (operation.is_fenced) flags |= IBV_SEND_FENCE;
  if (operation.is_solicited) flags |= IBV_SEND_SOLICITED;
  if (operation.is_inline) flags |= IBV_SEND_INLINE;
  return flags;
}

}  // namespace

Initiator::Initiator(std::string name, ibv_qp* queue_pair, uint32_t arena_bytes)
    : name_(std::move(name)),
      queue_pair_(queue_pair),
      arena_(queue_pair->pd, arena_bytes),
      own_window_(ibv_alloc_mw(queue_pair->pd, IBV_MW_TYPE_2)),
      chain_(kMaxChain) {
  if (own_window_ == nullptr) Fail("ibv_alloc_mw", errno);
}

void Initiator::StartRound(const RoundPlan& plan) {
  plan_ = &plan;
  posted_ = 0;
  completed_ = 0;
  FillWithPattern(arena_.bytes(), plan.local_seed);
}

void Initiator::Post() {
  for (;;) {
    const size_t room = kSendQueueDepth - (posted_ - completed_);
    const size_t left = plan_->operations.size() - posted_;
    const size_t count = std::min({room, left, 1 + posted_ % kMaxChain});
    if (count == 0) return;
    posted_ += PostChain(count);
  }
}

size_t Initiator::PostChain(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const Operation& operation = plan_->operations[posted_ + i];
    Fill(operation, &chain_[i]);
    // Requests behind a bind may need the new key.
    if (operation.kind == Kind::kBindWindow) count = i + 1;
    chain_[i].wr.next = i + 1 < count ? &chain_[i + 1].wr : nullptr;
  }
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(queue_pair_, &chain_[0].wr, &bad);
  if (error != 0) {
    const auto* request = reinterpret_cast<const Request*>(bad);
    const size_t index = posted_ + static_cast<size_t>(request - chain_.data());
    Fail(name_ + ": ibv_post_send of '" + std::string(NameOf(plan_->operations[index].kind)) + "'",
         error);
  }
  for (size_t i = 0; i < count; ++i) {
    const Operation& operation = plan_->operations[posted_ + i];
    if (operation.is_inline) {
      Scribble(operation.local, operation.scribble_seed, arena_.bytes().data());
    }
    // The poster keeps the key of a type 2 window; rxe finds the window by it.
    if (operation.kind == Kind::kBindWindow) own_window_->rkey = chain_[i].wr.bind_mw.rkey;
  }
  return count;
}

void Initiator::Fill(const Operation& operation, Request* request) {
  for (size_t i = 0; i < operation.local.size(); ++i) {
    request->sges[i] = arena_.Sge(operation.local[i]);
    if (operation.is_inline) request->sges[i].lkey = kKeyOfNothing;
  }
  ibv_send_wr& wr = request->wr;
  wr = {};
  wr.wr_id = operation.wr_id;
  wr.sg_list = request->sges.data();
  wr.num_sge = static_cast<int>(operation.local.size());
  wr.opcode = OpcodeOf(operation.kind);
  wr.send_flags = FlagsOf(operation);
  if (IsLocal(operation.kind)) {
    FillWindow(operation, &wr);
  } else {
    FillRemote(operation, &wr);
  }
}

void Initiator::FillRemote(const Operation& operation, ibv_send_wr* wr) const {
  const uint64_t address = remote_.address + operation.remote_offset;
  const uint32_t window_rkey = operation.window == kNoWindow
                                   ? 0
                                   : remote_.window_rkeys[static_cast<size_t>(operation.window)];
  const uint32_t rkey =
      operation.window == kNoWindow ? remote_.rkeys[operation.remote_region] : window_rkey;
  if (IsAtomic(operation.kind)) {
    wr->wr.atomic = {.remote_addr = address,
                     .compare_add = operation.compare_or_add,
                     .swap = operation.swap,
                     .rkey = rkey};
  } else if (!IsSend(operation.kind)) {
    wr->wr.rdma = {.remote_addr = address, .rkey = rkey};
  }
  if (HasImmediate(operation.kind)) wr->imm_data = htonl(operation.immediate);
  if (operation.kind == Kind::kSendInvalidate) wr->invalidate_rkey = window_rkey;
}

void Initiator::FillWindow(const Operation& operation, ibv_send_wr* wr) {
  if (operation.kind == Kind::kLocalInvalidate) {
    wr->invalidate_rkey = own_window_->rkey;
    return;
  }
  wr->bind_mw.mw = own_window_.get();
  wr->bind_mw.rkey = ibv_inc_rkey(own_window_->rkey);
  wr->bind_mw.bind_info = {.mr = arena_.region(0),
                           .addr = arena_.address(),
                           .length = arena_.bytes().size(),
                           .mw_access_flags = IBV_ACCESS_REMOTE_READ};
}

void Initiator::OnCompletion(const ibv_wc& completion) {
  const auto& operations = plan_->operations;
  size_t index = completed_;
  if (completion.status == IBV_WC_SUCCESS) {
    // Unsignaled requests complete silently with the next signaled one.
    while (index < posted_ && !operations[index].is_signaled) ++index;
  } else {
    while (index < posted_ && operations[index].wr_id != completion.wr_id) ++index;
  }
  if (index == posted_) throw std::runtime_error(name_ + ": a completion of nothing");
  CheckSendCompletion(completion, operations[index],
                      name_ + ", operation " + std::to_string(index) + ", " +
                          std::string(NameOf(operations[index].kind)));
  completed_ = index + 1;
}

std::string Initiator::Progress() const {
  return name_ + ": " + std::to_string(completed_) + " completed and " + std::to_string(posted_) +
         " posted of " + std::to_string(plan_->operations.size());
}

}  // namespace mover
