#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>

#include "tests/simulation/verdict.h"
#include "tests/simulation/wire_monitor.h"
#include "transport/ids.h"
#include "transport/psn.h"

namespace uroce::transport::simulation {

// The wire monitor of a network in which queue pairs come and go: keeps from it what it cannot
// judge, the frames to a queue pair that was destroyed, and knows which frames on the wire are left
// over from before a queue pair was connected anew.
class NetworkMonitor {
 public:
  NetworkMonitor(Verdict& verdict, bool strict) : monitor_(verdict, strict) {}

  // Queue pairs that were connected before must have first PSNs farther from the earlier ones than
  // kPsnsOfASession.
  void AddConnection(const WireMonitor::End& a, const WireMonitor::End& b);
  void AddDatagram(const WireMonitor::End& end) { monitor_.AddDatagram(end); }
  // The queue pair is about to be destroyed.
  void Forget(Qpn qpn);

  void OnSent(std::span<const uint8_t> frame);
  void OnDelivered(std::span<const uint8_t> frame);
  void OnImpaired(std::span<const uint8_t> frame);

  // Whether so much went wrong since the last progress that the requester had to give up.
  bool RetriesMayBeExceeded(Qpn requester) const;
  bool RnrRetriesMayBeExceeded(Qpn requester) const;
  // Whether something happened to a frame between the two since they were connected.
  bool WasImpaired(Qpn qpn) const;

  // See WireMonitor::CheckCounters. Nothing is checked if a queue pair was connected twice or
  // destroyed: not all that is counted was shown to the wire monitor then.
  void CheckCounters(const Endpoint& endpoint);

  // More packets than any connection of a simulation sends.
  static constexpr int32_t kPsnsOfASession = 1 << 19;

 private:
  struct Connected {
    Qpn peer;
    Psn first_psn;              // of its requests
    bool impaired = false;      // a frame to it
    bool met_the_past = false;  // a frame to it was left over from an earlier connection
  };
  // What a frame is to be told apart by, without looking at its checksum.
  struct Address {
    Qpn destination;
    Psn psn;
    uint8_t opcode = 0;
  };

  static Address AddressOf(std::span<const uint8_t> frame);
  bool IsOfThePast(const Address& address) const;

  WireMonitor monitor_;
  std::map<Qpn, Connected> connected_;
  std::set<Qpn> gone_;
  bool saw_everything_ = true;
};

}  // namespace uroce::transport::simulation
