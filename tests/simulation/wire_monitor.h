#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>

#include "tests/simulation/flow_monitor.h"
#include "tests/simulation/verdict.h"
#include "transport/endpoint.h"
#include "transport/ids.h"
#include "transport/wire/packet.h"

namespace uroce::transport::simulation {

// Watches every frame from outside, as a protocol analyser would, and knows what no queue pair may
// ever do on the wire whatever happened before. Queue pair numbers must be unique among all hosts.
class WireMonitor {
 public:
  using End = FlowEnd;

  // With `strict` false only what holds for any input is checked: frames are well formed.
  WireMonitor(Verdict& verdict, bool strict) : verdict_(verdict), strict_(strict) {}

  // Two queue pairs, RC or UC, are connected. Once more for queue pairs that were reset: what was
  // before is forgotten, but for what CheckCounters counts.
  void AddConnection(const End& a, const End& b);
  // A datagram queue pair; only `qp`, `first_psn` and `mtu_bytes` count.
  void AddDatagram(const End& end);

  void OnSent(std::span<const uint8_t> frame);
  void OnDelivered(std::span<const uint8_t> frame);
  // The wire did something to the frame that a perfect wire would not do.
  void OnImpaired(std::span<const uint8_t> frame);

  // Whether so much went wrong since the last progress that the requester had to give up.
  bool RetriesMayBeExceeded(Qpn requester) const {
    return flows_.at(requester).RetriesMayBeExceeded();
  }
  bool RnrRetriesMayBeExceeded(Qpn requester) const {
    return flows_.at(requester).RnrRetriesMayBeExceeded();
  }

  // Compares what the endpoint has counted with what was seen of its queue pairs, all of which must
  // have been added. Not for a monitor that is not strict.
  void CheckCounters(const Endpoint& endpoint);

 private:
  // nullptr if the packet belongs to nobody.
  FlowMonitor* Find(const Packet& packet);
  void CheckSender(const FlowMonitor& flow, const Packet& packet);
  void Retire(Qpn requester);

  Verdict& verdict_;
  bool strict_;
  std::map<Qpn, FlowMonitor> flows_;  // by the requester
  std::map<Qpn, Qpn> peers_;
  std::set<Qpn> silent_;  // responders that have sent their last word
  // By queue pair; of the flows that are there no more.
  std::map<Qpn, FlowTally> past_tallies_;
  struct Sent {
    uint64_t packets = 0;
    uint64_t bytes = 0;
  };
  std::map<Qpn, Sent> sent_;
};

}  // namespace uroce::transport::simulation
