#include "verbs_provider/abi/calibration.h"

#include <algorithm>
#include <iterator>

namespace uroce::verbs::abi {
namespace {

struct OpInfo {
  const char* name;
  int since;  // rdma-core release
};

constexpr OpInfo kOps[] = {
#define UROCE_X(name, since) {#name, since},
    UROCE_VERBS_CONTEXT_OPS(UROCE_X)
#undef UROCE_X
};

// The releases that changed anything we calibrate. The private ABI number is no guide: it stayed at
// 34 from v34 to v56.
struct KnownRelease {
  int release;
  size_t qp_ex_offset;
};

constexpr KnownRelease kReleases[] = {
    {33, 344}, {34, 344}, {35, 344}, {36, 344}, {44, 352},
    {45, 360}, {59, 360}, {62, 360}, {64, 360}, {65, 360},
};

// Without these no program gets as far as sending anything.
constexpr Op kIndispensable[] = {
    Op::alloc_pd,     Op::dealloc_pd, Op::reg_mr,     Op::dereg_mr,        Op::create_cq,
    Op::create_cq_ex, Op::poll_cq,    Op::destroy_cq, Op::req_notify_cq,   Op::create_qp,
    Op::modify_qp,    Op::query_qp,   Op::destroy_qp, Op::post_send,       Op::post_recv,
    Op::create_ah,    Op::destroy_ah, Op::query_port, Op::query_device_ex, Op::free_context,
};

const char* Name(size_t op) { return kOps[op].name; }

int SlotCountOf(int release) {
  return static_cast<int>(
      std::count_if(std::begin(kOps), std::end(kOps),
                    [release](const OpInfo& op) { return op.since <= release; }));
}

// Every release, known or not, keeps its table in alphabetical order.
std::string CheckOrder(const Layout& layout) {
  int last_slot = kUnknownSlot;
  size_t last_op = 0;
  for (size_t op = 0; op < layout.slot.size(); ++op) {
    const int slot = layout.slot[op];
    if (slot == kUnknownSlot) continue;
    if (slot >= layout.slot_count) {
      return std::string(Name(op)) + " was found at slot " + std::to_string(slot) +
             " of a table of " + std::to_string(layout.slot_count);
    }
    if (slot <= last_slot) {
      return std::string(Name(op)) + " was found at slot " + std::to_string(slot) + ", but " +
             Name(last_op) + ", which comes before it in every release, at " +
             std::to_string(last_slot);
    }
    last_slot = slot;
    last_op = op;
  }
  return "";
}

// Fills the slots that were not observed from the table of `release`; an observed one must agree.
std::string MergeRelease(int release, Layout& layout) {
  int slot = 0;
  for (size_t op = 0; op < layout.slot.size(); ++op) {
    const bool present = kOps[op].since <= release;
    const int expected = present ? slot : kUnknownSlot;
    const int observed = layout.slot[op];
    if (observed != kUnknownSlot && observed != expected) {
      return std::string(Name(op)) + " was found at slot " + std::to_string(observed) +
             ", but release " + std::to_string(release) +
             (present ? " has it at " + std::to_string(expected) : " does not have it");
    }
    layout.slot[op] = expected;
    if (present) ++slot;
  }
  return "";
}

}  // namespace

std::string CrossCheck(Layout& layout) {
  if (std::string conflict = CheckOrder(layout); !conflict.empty()) return conflict;

  bool length_is_known = false;
  for (const KnownRelease& known : kReleases) {
    if (SlotCountOf(known.release) != layout.slot_count) continue;
    length_is_known = true;
    if (known.qp_ex_offset != layout.qp_ex_offset) continue;
    if (std::string conflict = MergeRelease(known.release, layout); !conflict.empty()) {
      return conflict;
    }
    layout.release = known.release;
    break;
  }
  if (length_is_known && layout.release == 0) {
    return "no release with " + std::to_string(layout.slot_count) +
           " ops has the mask of extended queue pairs at offset " +
           std::to_string(layout.qp_ex_offset);
  }

  for (Op op : kIndispensable) {
    if (layout.SlotOf(op) == kUnknownSlot) {
      return std::string(Name(static_cast<size_t>(op))) + " was not found";
    }
  }
  return "";
}

}  // namespace uroce::verbs::abi
