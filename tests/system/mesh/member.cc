#include "tests/system/mesh/member.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>

namespace mesh {
namespace {

using system_test::Fail;

constexpr int kMaxLanes = 2'048;
constexpr int kPollBatch = 32;

}  // namespace

Member::Member(uint32_t number, int gid_index)
    : number_(number),
      device_(gid_index),
      domain_(ibv_alloc_pd(device_.context())),
      completions_(ibv_create_cq(device_.context(), kMaxLanes * Lane::kMaxCompletions, nullptr,
                                 nullptr, 0)) {
  if (domain_ == nullptr) Fail("ibv_alloc_pd", errno);
  if (completions_ == nullptr) Fail("ibv_create_cq", errno);
}

std::vector<LaneAddress> Member::Open(uint32_t peer, uint32_t lanes) {
  if (peers_.contains(peer)) throw std::runtime_error("there are lanes to that peer already");
  if (lane_of_qpn_.size() + lanes > kMaxLanes) throw std::runtime_error("those are too many lanes");
  std::vector<LaneAddress> addresses;
  for (uint32_t i = 0; i < lanes; ++i) {
    auto lane = std::make_unique<Lane>(device_, domain_.get(), completions_.get(),
                                       LaneName{.ours = number_, .theirs = peer, .number = i});
    addresses.push_back(lane->address());
    lane_of_qpn_[lane->queue_pair_number()] = lane.get();
    closed_qpns_.erase(lane->queue_pair_number());
    peers_[peer].push_back(std::move(lane));
  }
  return addresses;
}

void Member::Connect(uint32_t peer, const std::vector<LaneAddress>& addresses, uint8_t timeout,
                     uint8_t retry_count) {
  const Lanes& lanes = LanesTo(peer);
  if (addresses.size() != lanes.size()) throw std::runtime_error("the peer has not as many lanes");
  for (size_t i = 0; i < lanes.size(); ++i) {
    lanes[i]->Connect(addresses[i], {device_.active_mtu(), timeout, retry_count});
  }
}

void Member::Close(uint32_t peer) {
  for (const auto& lane : LanesTo(peer)) {
    lane_of_qpn_.erase(lane->queue_pair_number());
    closed_qpns_.insert(lane->queue_pair_number());
  }
  peers_.erase(peer);
}

void Member::Probe(uint32_t peer) {
  for (const auto& lane : LanesTo(peer)) lane->Probe();
}

void Member::SetMoving(bool is_moving) { is_moving_ = is_moving; }

bool Member::is_quiet() const {
  for (const auto& [peer, lanes] : peers_) {
    for (const auto& lane : lanes) {
      if (!lane->is_quiet()) return false;
    }
  }
  return true;
}

std::vector<std::string> Member::RunOnce() {
  if (is_moving_) {
    for (const auto& [qpn, lane] : lane_of_qpn_) lane->Advance();
  }
  std::array<ibv_wc, kPollBatch> completions;
  const int count = ibv_poll_cq(completions_.get(), kPollBatch, completions.data());
  if (count < 0) Fail("ibv_poll_cq", errno);
  std::vector<std::string> news;
  for (int i = 0; i < count; ++i) {
    const ibv_wc& completion = completions[static_cast<size_t>(i)];
    const auto found = lane_of_qpn_.find(completion.qp_num);
    // Completions from before a lane was closed may still come.
    if (closed_qpns_.contains(completion.qp_num)) continue;
    if (found == lane_of_qpn_.end()) throw std::runtime_error("a completion of an unknown qp_num");
    Lane& lane = *found->second;
    const bool worked = lane.failure() == IBV_WC_SUCCESS;
    lane.OnCompletion(completion);
    if (worked && lane.failure() != IBV_WC_SUCCESS) {
      news.push_back("failed " + std::to_string(lane.name().theirs) + ' ' +
                     std::to_string(lane.name().number) + ' ' + std::to_string(lane.failure()));
    }
  }
  return news;
}

Member::Count Member::CountOf(uint32_t peer) const {
  const Lanes& lanes = LanesTo(peer);
  Count count;
  if (!lanes.empty()) count.turns = UINT64_MAX;
  for (const auto& lane : lanes) {
    count.turns = std::min(count.turns, lane->verified_turns());
    count.bytes += lane->verified_bytes();
    if (lane->failure() != IBV_WC_SUCCESS) ++count.failed_lanes;
  }
  return count;
}

const Member::Lanes& Member::LanesTo(uint32_t peer) const {
  const auto found = peers_.find(peer);
  if (found == peers_.end()) throw std::runtime_error("there are no lanes to that peer");
  return found->second;
}

}  // namespace mesh
