#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "tests/simulation/flow_monitor.h"
#include "tests/simulation/verdict.h"
#include "transport/endpoint.h"
#include "transport/ids.h"
#include "transport/wire/packet.h"

namespace uroce::transport::simulation {

// Watches every frame from outside, as a protocol analyser would, and checks what no queue pair may
// ever send. Queue pair numbers must be unique among all hosts.
class WireMonitor {
 public:
  using End = FlowEnd;

  // With `strict` false checks only rules that hold for any input: frames are well formed.
  WireMonitor(Verdict& verdict, bool strict) : verdict_(verdict), strict_(strict) {}

  // Two queue pairs, RC or UC, are connected. Queue pairs that were reset are added again: that
  // forgets everything earlier except the tallies for CheckCounters.
  void AddConnection(const End& a, const End& b);
  // A datagram queue pair; only `qp`, `first_psn` and `mtu_bytes` are used.
  void AddDatagram(const End& end);

  void OnSent(std::span<const uint8_t> frame);
  void OnDelivered(std::span<const uint8_t> frame);
  // The wire did something to the frame that a perfect wire would not do.
  void OnImpaired(std::span<const uint8_t> frame);

  // Whether enough went wrong since the last progress to use up the retries.
  bool RetriesMayBeExceeded(Qpn requester) const {
    return flows_.at(requester).RetriesMayBeExceeded();
  }
  bool RnrRetriesMayBeExceeded(Qpn requester) const {
    return flows_.at(requester).RnrRetriesMayBeExceeded();
  }

  // Compares the counters of the endpoint with the tallies of its queue pairs, all of which must
  // have been added. Needs a strict monitor.
  void CheckCounters(const Endpoint& endpoint);

 private:
  // nullptr if the packet belongs to no known queue pair.
  FlowMonitor* Find(const Packet& packet);
  void CheckSender(const FlowMonitor& flow, const Packet& packet);
  void Retire(Qpn requester);

  Verdict& verdict_;
  bool strict_;
  std::map<Qpn, FlowMonitor> flows_;  // by the requester
  std::map<Qpn, Qpn> peers_;
  std::set<Qpn> silent_;  // responders that have sent their last frame, a NAK in ERR
  // By queue pair; the tallies of flows that were removed.
  std::map<Qpn, FlowTally> past_tallies_;
  struct Sent {
    uint64_t packets = 0;
    uint64_t bytes = 0;
  };
  std::map<Qpn, Sent> sent_;
  struct Management {
    Gid source;
    uint64_t bytes;
  };
  std::vector<Management> management_;  // datagrams to queue pair 1
};

}  // namespace uroce::transport::simulation
