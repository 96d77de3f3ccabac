#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/simulation/bottleneck.h"
#include "tests/simulation/link.h"
#include "tests/simulation/simulator.h"
#include "tests/simulation/tcp_flow.h"
#include "transport/work_request.h"

namespace uroce::transport::simulation {

// Flows that share a bottleneck: reliable connections between endpoints of ours, and TCP flows.
struct PathScenario {
  PathOptions path;  // of either direction, each with a queue of its own
  SendOpcode opcode = SendOpcode::kRdmaWrite;
  uint32_t message_bytes = 64 << 10;
  uint32_t queue_depth = 64;  // messages that a flow keeps posted
  uint32_t flows = 1;
  uint32_t tcp_flows = 0;
  uint8_t timeout = 14;           // 67 ms, perftest's default
  ProcessorShare processor = {};  // of each end of a flow
  Duration length = Milliseconds(500);
};

struct PathResult {
  std::vector<double> percents;      // goodput of each flow as a share of the link
  std::vector<double> tcp_percents;  // the same of each TCP flow
  double resent_percent = 0;         // of our packets with payload: sent before
  double offered = 0;                // what all flows sent towards the bottleneck, in links
  uint32_t broken = 0;               // connections that failed
  Time first_completion_after_outage = kNever;

  double SumPercent() const;
  double JainIndex() const;  // of our flows: 1 if all are equal
};

// Runs one scenario, in virtual time.
//
//   client 1 --\                          /-- server 1
//   client 2 ----  Bottleneck (forth)  ------ server 2
//   TCP      --/   Bottleneck (back)      \-- TCP
class PathRun {
 public:
  explicit PathRun(const PathScenario& scenario);

  PathResult Run();

 private:
  struct Flow {
    std::unique_ptr<Link> link;
    uint64_t messages = 0;  // completed
    bool broken = false;
    uint64_t data_frames = 0;
    uint64_t resent_frames = 0;
    Psn data_end{1'000};  // one beyond the last PSN of a frame with payload
  };

  void MakeFlow(Flow& flow, uint64_t seed);
  void Carry(Flow& flow, const Link::Host& from, std::span<const uint8_t> frame);
  void CountData(Flow& flow, std::span<const uint8_t> frame);
  void OnActivity(Flow& flow, Link::Host& host);
  bool Post(Flow& flow);
  bool CarriesReads() const { return scenario_.opcode == SendOpcode::kRdmaRead; }

  const PathScenario scenario_;
  Simulator simulator_;
  Bottleneck forth_;
  Bottleneck back_;
  std::vector<Flow> flows_;
  std::vector<std::unique_ptr<TcpFlow>> tcp_flows_;
  Time first_completion_after_outage_ = kNever;
};

}  // namespace uroce::transport::simulation
