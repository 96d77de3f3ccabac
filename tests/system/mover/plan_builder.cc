#include "tests/system/mover/plan_builder.h"

#include <algorithm>
#include <utility>

namespace mover {
namespace {

constexpr uint32_t kWindowsARound = 2;
constexpr uint32_t kMaxWindowBytes = 64 << 10;
constexpr uint32_t kMaxUnsignaledRun = 12;

uint8_t AnyRegion(Random& random) { return static_cast<uint8_t>(random.Below(2)); }

}  // namespace

PlanBuilder::PlanBuilder(const Workload& workload, uint64_t stream_seed, Direction direction)
    : workload_(workload),
      stream_seed_(stream_seed),
      is_plain_(workload.is_plain[static_cast<size_t>(direction)]),
      random_(stream_seed),
      local_space_(workload.arena_bytes, random_),
      remote_space_(workload.arena_bytes, random_) {
  plan_.local_seed = random_.Next();
  plan_.remote_seed = random_.Next();
}

RoundPlan PlanBuilder::Build() {
  PlaceAtomicCells();
  if (!is_plain_) PlaceWindows();
  while (plan_.operations.size() < workload_.operations && HasSpaceForAGroup()) AddGroup();
  DecideSignals();
  const uint32_t all = MaxOperations(workload_);
  const bool too_few = random_.Chance(30) && !workload_.receives_in_advance;
  plan_.receives_posted = too_few ? random_.Between(1, 3) : all;
  return std::move(plan_);
}

void PlanBuilder::PlaceAtomicCells() {
  for (Cell& cell : cells_) {
    cell.offset = remote_space_.TakeAligned(kAtomicBytes, kAtomicBytes);
    cell.value = PatternWord(plan_.remote_seed, cell.offset / sizeof(uint64_t));
  }
}

void PlanBuilder::PlaceWindows() {
  for (uint32_t i = 0; i < kWindowsARound; ++i) {
    const uint32_t length =
        random_.Between(1, std::min(kMaxWindowBytes, workload_.arena_bytes / 8));
    plan_.windows.push_back(
        {.offset = remote_space_.Take(length), .length = length, .is_invalidated_by_peer = false});
  }
}

void PlanBuilder::AddGroup() {
  constexpr uint32_t kPlainGroups = 7;  // the cases without fences and windows come first
  switch (random_.Below(is_plain_ ? kPlainGroups : 10)) {
    case 0:
    case 1:
      return AddSend();
    case 2:
    case 3:
      return AddWrite();
    case 4:
      return AddRead();
    case 5:
      return AddAtomic();
    case 6:
      return AddRewrite();
    case 7:
      return AddReadThenWrite();
    case 8:
      return AddWindowUse();
    default:
      return AddOwnWindow();
  }
}

void PlanBuilder::AddSend() {
  const Kind kind = random_.Chance(50) ? Kind::kSend : Kind::kSendImmediate;
  Operation send = NewOperation(kind, DrawMessageLength(1));
  send.local = local_space_.TakePieces(send.length);
  MaybeInline(&send);
  Add(std::move(send));
}

void PlanBuilder::AddWrite() {
  const Kind kind = random_.Chance(50) ? Kind::kWrite : Kind::kWriteImmediate;
  const uint32_t length = DrawMessageLength(1);
  Add(RemoteOperation(kind, length, remote_space_.Take(length)));
}

void PlanBuilder::AddRead() {
  const uint32_t length = DrawMessageLength(1);
  Add(RemoteOperation(Kind::kRead, length, remote_space_.Take(length)));
}

void PlanBuilder::AddAtomic() {
  Cell& cell = cells_[random_.Below(kAtomicCells)];
  const Kind kind = random_.Chance(50) ? Kind::kCompareSwap : Kind::kFetchAdd;
  Operation atomic = NewOperation(kind, kAtomicBytes);
  atomic.local = {{.offset = local_space_.Take(kAtomicBytes),
                   .length = kAtomicBytes,
                   .region = AnyRegion(random_)}};
  atomic.remote_offset = cell.offset;
  if (kind == Kind::kFetchAdd) {
    atomic.compare_or_add = random_.Next();
    cell.value += atomic.compare_or_add;
  } else {
    const bool matches = random_.Chance(60);
    atomic.compare_or_add = matches ? cell.value : ~cell.value;
    atomic.swap = random_.Next();
    if (matches) cell.value = atomic.swap;
  }
  Add(std::move(atomic));
}

// The same bytes are written twice and read back: a repeated packet of the first WRITE must not
// undo the second, and the READ must see it.
void PlanBuilder::AddRewrite() {
  const uint32_t length = DrawMessageLength(3);
  const uint32_t offset = remote_space_.Take(length);
  Add(RemoteOperation(Kind::kWrite, length, offset));
  Add(RemoteOperation(Kind::kWrite, length, offset));
  Add(RemoteOperation(Kind::kRead, length, offset));
}

// A fenced SEND returns the bytes that a READ fetched, and a fenced WRITE overwrites their source.
void PlanBuilder::AddReadThenWrite() {
  const uint32_t length = DrawMessageLength(3);
  const uint32_t offset = remote_space_.Take(length);
  Operation read = RemoteOperation(Kind::kRead, length, offset);
  Operation forward = NewOperation(Kind::kSendImmediate, length);
  forward.local = read.local;
  forward.is_fenced = true;
  Operation overwrite = RemoteOperation(Kind::kWrite, length, offset);
  overwrite.is_fenced = true;
  Add(std::move(read));
  Add(std::move(forward));
  Add(std::move(overwrite));
}

// Operations through a window of the target, and a SEND that may invalidate the window.
void PlanBuilder::AddWindowUse() {
  if (next_window_ == plan_.windows.size()) return AddSend();
  const int number = static_cast<int>(next_window_++);
  WindowRange& window = plan_.windows[static_cast<size_t>(number)];
  const uint32_t half = window.length / 2;
  Operation write = RemoteOperation(Kind::kWriteImmediate, half, window.offset);
  write.window = number;
  Operation read = RemoteOperation(Kind::kRead, window.length - half, window.offset + half);
  read.window = number;
  Add(std::move(write));
  Add(std::move(read));
  if (random_.Chance(25)) return;  // The target invalidates the window.
  window.is_invalidated_by_peer = true;
  Operation send = NewOperation(Kind::kSendInvalidate, DrawLength(kMaxInlineBytes));
  send.local = local_space_.TakePieces(send.length);
  send.window = number;
  send.is_fenced = true;  // The READ may have to be repeated while the window is open.
  MaybeInline(&send);
  Add(std::move(send));
}

// A window of the initiator's own, bound and invalidated amid the traffic.
void PlanBuilder::AddOwnWindow() {
  Add(NewOperation(Kind::kBindWindow, 0));
  AddWrite();
  Add(NewOperation(Kind::kLocalInvalidate, 0));
}

// Makes runs of unsignaled requests. The last of a round is signaled, so that its end is seen.
void PlanBuilder::DecideSignals() {
  uint32_t run = 0;
  for (Operation& operation : plan_.operations) {
    operation.is_signaled = run == 0;
    run = run > 0 ? run - 1 : random_.Chance(50) ? 0 : random_.Between(1, kMaxUnsignaledRun);
  }
  plan_.operations.back().is_signaled = true;
}

// Small sizes, sizes around multiples of every path MTU, and large ones.
uint32_t PlanBuilder::DrawLength(uint32_t limit) {
  const auto draw = [&]() -> uint32_t {
    switch (random_.Below(8)) {
      case 0:
        return random_.Below(9);
      case 1:
      case 2:
        return random_.Below(600);
      case 3:
      case 4:
        return (256u << random_.Below(5)) * random_.Between(1, 5) + random_.Below(3) - 1;
      case 5:
      case 6:
        return random_.Below(64 << 10);
      default:
        return random_.Below(workload_.max_message_bytes) + 1;
    }
  };
  return std::min(draw(), limit);
}

uint32_t PlanBuilder::DrawMessageLength(uint32_t messages) {
  const uint32_t left = std::min(local_space_.left(), remote_space_.left());
  const uint32_t fair = left / messages - ArenaSpace::kOverheadBytes;
  return DrawLength(std::min(fair, workload_.max_message_bytes));
}

bool PlanBuilder::HasSpaceForAGroup() const {
  const uint32_t left = std::min(local_space_.left(), remote_space_.left());
  return left > kMaxWindowBytes + 2 * kMaxGroupMessages * ArenaSpace::kOverheadBytes;
}

Operation PlanBuilder::NewOperation(Kind kind, uint32_t length) {
  Operation operation;
  operation.kind = kind;
  operation.length = length;
  operation.remote_region = AnyRegion(random_);
  operation.is_fenced = !is_plain_ && random_.Chance(5);
  operation.is_solicited = ConsumesReceive(kind) && random_.Chance(30);
  if (HasImmediate(kind)) operation.immediate = static_cast<uint32_t>(random_.Next());
  return operation;
}

Operation PlanBuilder::RemoteOperation(Kind kind, uint32_t length, uint32_t remote_offset) {
  Operation operation = NewOperation(kind, length);
  operation.local = local_space_.TakePieces(length);
  operation.remote_offset = remote_offset;
  if (IsWrite(kind)) MaybeInline(&operation);
  return operation;
}

void PlanBuilder::MaybeInline(Operation* operation) {
  if (operation->length > kMaxInlineBytes || !random_.Chance(50)) return;
  operation->is_inline = true;
  operation->scribble_seed = random_.Next();
}

void PlanBuilder::AddReceive(Operation* operation) {
  const uint32_t spare = random_.Chance(50) ? 0 : random_.Below(200);
  const uint32_t capacity = IsSend(operation->kind) ? operation->length + spare : spare;
  operation->receive = remote_space_.TakePieces(capacity);
}

void PlanBuilder::Add(Operation operation) {
  if (ConsumesReceive(operation.kind)) AddReceive(&operation);
  operation.wr_id = Mix(stream_seed_ + plan_.operations.size());
  plan_.operations.push_back(std::move(operation));
}

}  // namespace mover
