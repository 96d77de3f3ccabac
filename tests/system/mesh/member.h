#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/system/mesh/lane.h"
#include "tests/system/verbs/device.h"
#include "tests/system/verbs/handles.h"

namespace mesh {

// One process of an all-to-all, with lanes to any number of other members, all moving data.
class Member {
 public:
  // Throws std::runtime_error, as every member does, also if a byte is wrong.
  Member(uint32_t number, int gid_index);

  // Opens lanes to a peer. Returns the addresses that the peer needs to connect them.
  std::vector<LaneAddress> Open(uint32_t peer, uint32_t lanes);
  void Connect(uint32_t peer, const std::vector<LaneAddress>& addresses, uint8_t timeout,
               uint8_t retry_count);
  void Close(uint32_t peer);
  void Probe(uint32_t peer);

  // Whether the member takes its turns.
  void SetMoving(bool is_moving);
  // None of our requests is outstanding on any working lane.
  bool is_quiet() const;
  // RunOnce has something to do.
  bool is_busy() const { return !peers_.empty() && (is_moving_ || !is_quiet()); }

  // Handles completions. Returns the lines to print, e.g. "failed 3 0 12": the peer, the lane and
  // the status of its first failure.
  std::vector<std::string> RunOnce();

  struct Count {
    uint64_t turns = 0;  // verified on every lane, i.e. of the slowest
    uint64_t bytes = 0;  // of all lanes
    uint32_t failed_lanes = 0;
  };
  Count CountOf(uint32_t peer) const;

 private:
  using Lanes = std::vector<std::unique_ptr<Lane>>;

  const Lanes& LanesTo(uint32_t peer) const;

  uint32_t number_;
  system_test::Device device_;
  system_test::DomainHandle domain_;
  system_test::QueueHandle completions_;
  std::map<uint32_t, Lanes> peers_;
  std::map<uint32_t, Lane*> lane_of_qpn_;
  std::set<uint32_t> closed_qpns_;
  bool is_moving_ = true;
};

}  // namespace mesh
