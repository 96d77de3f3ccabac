#include "tests/simulation/path_run.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "transport/limits.h"

namespace uroce::transport::simulation {
namespace {

constexpr size_t kBth = 14 + 20 + 8;     // behind Ethernet, IPv4 and UDP
constexpr size_t kDataFrameBytes = 200;  // frames without payload are shorter
constexpr uint64_t kSeed = 38;

LinkOptions Options(const PathScenario& scenario, uint64_t seed) {
  LinkOptions options;
  options.mtu = Mtu::k1024;
  options.timeout = scenario.timeout;
  options.probes = true;
  options.congestion = Congestion::kModel;
  options.reorder_packets = kReorderPackets;
  options.queue_depth = scenario.queue_depth;
  options.memory_bytes = scenario.message_bytes;
  options.processor = scenario.processor;
  options.seed = seed;
  return options;
}

}  // namespace

double PathResult::SumPercent() const {
  return std::accumulate(percents.begin(), percents.end(), 0.0);
}

double PathResult::JainIndex() const {
  const double sum = SumPercent();
  const double squares =
      std::inner_product(percents.begin(), percents.end(), percents.begin(), 0.0);
  return squares == 0 ? 0 : sum * sum / (static_cast<double>(percents.size()) * squares);
}

PathRun::PathRun(const PathScenario& scenario)
    : scenario_(scenario),
      forth_(simulator_, Random(kSeed), scenario.path),
      back_(simulator_, Random(kSeed + 1), scenario.path),
      flows_(scenario.flows) {
  for (size_t i = 0; i < flows_.size(); ++i) MakeFlow(flows_[i], kSeed + i);
  for (uint32_t i = 0; i < scenario.tcp_flows; ++i) {
    tcp_flows_.push_back(std::make_unique<TcpFlow>(simulator_, forth_, back_));
  }
}

void PathRun::MakeFlow(Flow& flow, uint64_t seed) {
  const Link::Observer observer = {
      .sent = {}, .delivered = {}, .impaired = {}, .activity = [this, &flow](Link::Host& host) {
        OnActivity(flow, host);
      }};
  const auto carry = [this, &flow](Link::Host& from, std::span<const uint8_t> frame) {
    Carry(flow, from, frame);
  };
  flow.link = std::make_unique<Link>(Options(scenario_, seed), observer, simulator_, carry);
}

// The client of a READ is behind the bottleneck, so that the data goes forth in any case.
void PathRun::Carry(Flow& flow, const Link::Host& from, std::span<const uint8_t> frame) {
  const bool goes_forth = (from.index == 0) != CarriesReads();
  if (goes_forth) CountData(flow, frame);
  Link::Host& to = from.index == 0 ? flow.link->server() : flow.link->client();
  Bottleneck& bottleneck = goes_forth ? forth_ : back_;
  bottleneck.Send({frame.begin(), frame.end()},
                  [&flow, &to](const Frame& arrived) { flow.link->Receive(to, arrived); });
}

void PathRun::CountData(Flow& flow, std::span<const uint8_t> frame) {
  if (frame.size() < kDataFrameBytes) return;
  const uint8_t* const psn_bytes = &frame[kBth + 9];
  const Psn psn(uint32_t{psn_bytes[0]} << 16 | uint32_t{psn_bytes[1]} << 8 | psn_bytes[2]);
  ++flow.data_frames;
  if (psn.IsBefore(flow.data_end)) {
    ++flow.resent_frames;
  } else {
    flow.data_end = psn + 1;
  }
}

// Posts one message for each completed one.
void PathRun::OnActivity(Flow& flow, Link::Host& host) {
  std::array<Completion, 64> completions;
  const size_t count = host.cq->Poll(completions);
  for (size_t i = 0; i < count; ++i) {
    flow.broken |= completions[i].status != CompletionStatus::kSuccess;
    if (flow.broken) return;
    ++flow.messages;
    flow.broken |= !Post(flow);
  }
  if (count == 0) return;
  const bool is_first = first_completion_after_outage_ == kNever;
  if (is_first && simulator_.now() >= scenario_.path.outage_end) {
    first_completion_after_outage_ = simulator_.now();
  }
  flow.link->UpdateAfterEvent(host);
}

bool PathRun::Post(Flow& flow) {
  return flow.link->Post(scenario_.opcode, 0, scenario_.message_bytes) == Status::kOk;
}

PathResult PathRun::Run() {
  for (Flow& flow : flows_) {
    for (uint32_t i = 0; i < scenario_.queue_depth; ++i) flow.broken |= !Post(flow);
    flow.link->UpdateAfterEvent(flow.link->client());
  }
  for (const auto& tcp : tcp_flows_) tcp->Start();
  const Time end = Time{} + scenario_.length;
  while (simulator_.now() < end && simulator_.RunOne()) {
  }

  const double link_bytes = static_cast<double>(scenario_.path.kbps) * 125 *
                            static_cast<double>(scenario_.length.ns) * 1e-9;
  const auto percent = [link_bytes](uint64_t bytes) {
    return static_cast<double>(bytes) * 100 / link_bytes;
  };
  PathResult result;
  uint64_t data_frames = 0;
  uint64_t resent_frames = 0;
  for (const Flow& flow : flows_) {
    result.percents.push_back(percent(flow.messages * scenario_.message_bytes));
    result.broken += flow.broken;
    data_frames += flow.data_frames;
    resent_frames += flow.resent_frames;
  }
  for (const auto& tcp : tcp_flows_) result.tcp_percents.push_back(percent(tcp->payload_bytes()));
  if (data_frames != 0) {
    result.resent_percent =
        static_cast<double>(resent_frames) * 100 / static_cast<double>(data_frames);
  }
  result.offered = percent(forth_.bytes_offered()) / 100;
  result.first_completion_after_outage = first_completion_after_outage_;
  return result;
}

}  // namespace uroce::transport::simulation
