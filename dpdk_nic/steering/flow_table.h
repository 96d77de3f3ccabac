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

// A rule for the frames that a raw packet queue pair gets (ibv_create_flow).
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

// A flow takes about 200 bytes, and a program creates thousands at the most.
inline constexpr size_t kMaxFlows = 65'536;

// The flows of a port, and which queue pairs a frame is for. Rules are tried by priority. Among
// those of one priority, rules with lets_pass come first, and those with the same mask are tried
// together, in the order in which the masks first appeared. All flows with the rule that matches
// get a copy. The time of a look-up grows with the number of different masks and priorities, not of
// flows.
class FlowTable {
 public:
  using Target = transport::QueuePair*;

  // `id` has to be new. False if there are kMaxFlows. Throws std::bad_alloc. Neither failure
  // changes anything.
  bool Add(uint64_t id, const FlowRule& rule, Target target);
  void Remove(uint64_t id, const FlowRule& rule);

  bool empty() const { return steering_flows_ == 0 && sniffers_.empty(); }
  bool steers() const { return steering_flows_ != 0; }
  // The queue pairs that get a copy of every frame.
  std::span<const Target> sniffers() const { return sniffer_targets_; }
  // The queue pairs that the frame is steered to, if any. Valid until the next call.
  std::span<const Target> Find(const FrameFields& fields);
  // Whether a rule that matches names the whole destination address of the frame.
  bool NamesDestination(const FrameFields& fields) const;
  // Whether a normal rule matches.
  bool HasNormalRuleFor(const FrameFields& fields) const;

 private:
  struct Flow {
    uint64_t id = 0;
    Target target = nullptr;
  };
  struct Hash {
    size_t operator()(const FrameFields& fields) const;
  };
  // Flows with the same rank and mask, by the field values that they match.
  struct Group {
    uint32_t rank;
    FrameFields mask;
    std::unordered_map<FrameFields, std::vector<Flow>, Hash> flows;
  };
  // The place of a rule in the groups: its rank, its mask, and one or two values.
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
