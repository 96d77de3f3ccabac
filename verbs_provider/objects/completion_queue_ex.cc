#include <time.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "dpdk_nic/base/clock.h"
#include "verbs_provider/objects/completion_queue.h"

// ibv_start_poll and its relatives. The poll lock is held from a successful ibv_start_poll to
// ibv_end_poll, as the interface demands: the current completion is a state of the queue.
namespace uroce::verbs {
namespace {

bool Advance(CompletionQueue& cq) {
  if (!cq.queue->PollOne(cq.current, cq.current_time)) return false;
  cq.verbs.ex.wr_id = cq.current.wr_id;
  cq.verbs.ex.status = static_cast<ibv_wc_status>(cq.current.status);
  return true;
}

int StartPoll(ibv_cq_ex* verbs, ibv_poll_cq_attr* attr) {
  CompletionQueue& cq = CompletionQueue::From(verbs);
  if (cq.device->lost_by_fork()) return EIO;
  if (attr != nullptr && attr->comp_mask != 0) return EINVAL;
  if (cq.queue->empty()) cq.engine().TryRunOnce();
  if (cq.queue->empty()) return ENOENT;

  cq.poll_lock.lock();
  if (Advance(cq)) {
    if (cq.wall_clock != nullptr) cq.wall_clock->Sample();
    return 0;
  }
  cq.poll_lock.unlock();
  return ENOENT;
}

int NextPoll(ibv_cq_ex* verbs) { return Advance(CompletionQueue::From(verbs)) ? 0 : ENOENT; }

void EndPoll(ibv_cq_ex* verbs) {
  CompletionQueue& cq = CompletionQueue::From(verbs);
  EndPolling(cq);
  cq.poll_lock.unlock();
}

const transport::Completion& Current(ibv_cq_ex* verbs) {
  return CompletionQueue::From(verbs).current;
}

ibv_wc_opcode ReadOpcode(ibv_cq_ex* cq) { return static_cast<ibv_wc_opcode>(Current(cq).opcode); }
uint32_t ReadVendorError(ibv_cq_ex* cq) { return static_cast<uint32_t>(Current(cq).vendor_error); }
uint32_t ReadByteLength(ibv_cq_ex* cq) { return Current(cq).byte_length; }
__be32 ReadImmediate(ibv_cq_ex* cq) { return Current(cq).immediate_or_rkey; }
uint32_t ReadQpn(ibv_cq_ex* cq) { return Current(cq).qpn.value; }
uint32_t ReadSourceQpn(ibv_cq_ex* cq) { return Current(cq).source_qpn.value; }
unsigned int ReadFlags(ibv_cq_ex* cq) { return Current(cq).flags; }
uint8_t ReadServiceLevel(ibv_cq_ex* cq) { return static_cast<uint8_t>(Current(cq).datagram_ip); }
// LIDs are InfiniBand's local routing: Ethernet has none.
uint32_t ReadSourceLid(ibv_cq_ex*) { return 0; }
uint8_t ReadPathBits(ibv_cq_ex*) { return 0; }

uint64_t ReadTimestamp(ibv_cq_ex* cq) {
  return static_cast<uint64_t>(CompletionQueue::From(cq).current_time.ns);
}

uint64_t ReadWallClock(ibv_cq_ex* verbs) {
  CompletionQueue& cq = CompletionQueue::From(verbs);
  return cq.wall_clock->At(cq.current_time);
}

int64_t SystemClock() {
  timespec wall;
  clock_gettime(CLOCK_REALTIME, &wall);
  return wall.tv_sec * 1'000'000'000 + wall.tv_nsec;
}

}  // namespace

// Two readings of the engine's clock bracket that of the system's. If the thread loses its
// processor in between, they are far apart: another try is closer. The offset changes only if the
// sample shows that it is wrong, so that the times of completions differ by what lay between them.
void WallClock::Sample() {
  constexpr int kTries = 4;
  constexpr transport::Duration kClose{200};
  transport::Duration best = transport::Milliseconds(60'000);
  int64_t least_ns = 0;
  for (int tries = 0; tries < kTries && best > kClose; ++tries) {
    const transport::Time before = nic::Now();
    const int64_t wall_ns = SystemClock();
    const transport::Duration width = nic::Now() - before;
    if (width >= best) continue;
    best = width;
    least_ns = wall_ns - before.ns - width.ns;
  }
  offset_ns_ = std::clamp(offset_ns_, least_ns, least_ns + best.ns);
}

uint64_t WallClock::At(transport::Time time) {
  latest_ns_ = std::max(latest_ns_, time.ns + offset_ns_);
  return static_cast<uint64_t>(latest_ns_);
}

void SetExtendedPolling(CompletionQueue& cq, uint64_t wc_flags) {
  ibv_cq_ex& ex = cq.verbs.ex;
  ex.start_poll = StartPoll;
  ex.next_poll = NextPoll;
  ex.end_poll = EndPoll;
  ex.read_opcode = ReadOpcode;
  ex.read_vendor_err = ReadVendorError;
  ex.read_wc_flags = ReadFlags;
  // As in every provider, only the fields that were asked for may be read.
  const auto asked = [wc_flags](uint64_t bit) { return (wc_flags & bit) != 0; };
  if (asked(IBV_WC_EX_WITH_BYTE_LEN)) ex.read_byte_len = ReadByteLength;
  if (asked(IBV_WC_EX_WITH_IMM)) ex.read_imm_data = ReadImmediate;
  if (asked(IBV_WC_EX_WITH_QP_NUM)) ex.read_qp_num = ReadQpn;
  if (asked(IBV_WC_EX_WITH_SRC_QP)) ex.read_src_qp = ReadSourceQpn;
  if (asked(IBV_WC_EX_WITH_SLID)) ex.read_slid = ReadSourceLid;
  if (asked(IBV_WC_EX_WITH_SL)) ex.read_sl = ReadServiceLevel;
  if (asked(IBV_WC_EX_WITH_DLID_PATH_BITS)) ex.read_dlid_path_bits = ReadPathBits;
  if (asked(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)) ex.read_completion_ts = ReadTimestamp;
  if (asked(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)) {
    cq.wall_clock = std::make_unique<WallClock>();
    ex.read_completion_wallclock_ns = ReadWallClock;
  }
}

}  // namespace uroce::verbs
