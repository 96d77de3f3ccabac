#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "dpdk_nic/steering/frame_fields.h"

namespace uroce::transport {
class QueuePair;
}

namespace uroce::nic {

// Which frames a raw packet queue pair is to have (ibv_create_flow).
struct FlowRule {
  enum class Kind : uint8_t {
    kNormal,            // those whose fields match
    kAllDefault,        // all that no normal rule takes
    kMulticastDefault,  // of these, those to a group
    kSniffer,           // a copy of every frame
  };
  Kind kind = Kind::kNormal;
  uint16_t priority = 0;   // of a normal rule; the lowest number comes first
  bool lets_pass = false;  // of a normal rule: later ones may take the frame, too (DONT_TRAP)
  FrameFields value = {};  // of a normal rule; zero where the mask is
  FrameFields mask = {};
};

// Each takes 200 bytes or so, and a program asks for thousands at the most.
inline constexpr size_t kMaxFlows = 65'536;

// The flows of a port, and which queue pairs a frame is for. Rules are tried by their priority.
// Among those of one priority, rules that let pass come before those that do not, and those that
// look at the same fields are tried together, in the order in which such fields were first named.
// All flows with the rule that matches get a copy. The time of a look-up grows with the number of
// different masks and priorities, not of flows.
class FlowTable {
 public:
  using Target = transport::QueuePair*;

  // False, and nothing has changed: there are kMaxFlows. `id` is new. Throws std::bad_alloc, and
  // nothing has changed.
  bool Add(uint64_t id, const FlowRule& rule, Target target);
  void Remove(uint64_t id, const FlowRule& rule);

  bool empty() const { return steering_flows_ == 0 && sniffers_.empty(); }
  bool steers() const { return steering_flows_ != 0; }
  // Who sees every frame.
  std::span<const Target> sniffers() const { return sniffer_targets_; }
  // Whom the frame is steered to; nobody if no rule matches. Valid until the next call.
  std::span<const Target> Find(const FrameFields& fields);

 private:
  struct Flow {
    uint64_t id = 0;
    Target target = nullptr;
  };
  struct Hash {
    size_t operator()(const FrameFields& fields) const;
  };
  // Flows that look at the same fields with the same urgency, by the values that they want there.
  struct Group {
    uint32_t rank;
    FrameFields mask;
    std::unordered_map<FrameFields, std::vector<Flow>, Hash> flows;
  };
  // What a rule is in the groups: its rank, its mask, and one or two values.
  struct Place {
    uint32_t rank;
    FrameFields mask;
    std::vector<FrameFields> values;
  };

  static Place PlaceOf(const FlowRule& rule);
  void Insert(const Place& place, const FrameFields& value, const Flow& flow);
  void Erase(const Place& place, const FrameFields& value, uint64_t id);

  std::vector<Group> groups_;  // by rank, then by age
  size_t steering_flows_ = 0;
  std::vector<Flow> sniffers_;
  std::vector<Target> sniffer_targets_;  // of sniffers_
  std::vector<Target> found_;            // room for every flow
};

}  // namespace uroce::nic
