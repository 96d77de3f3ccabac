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

// The wire monitor of a network in which queue pairs come and go. Hides frames to a destroyed queue
// pair from WireMonitor, which cannot judge them, and recognizes frames that are left over from an
// earlier connection of a queue pair.
class NetworkMonitor {
 public:
  NetworkMonitor(Verdict& verdict, bool strict) : monitor_(verdict, strict) {}

  // The first PSNs of queue pairs that were connected before must be farther than kPsnsOfASession
  // from their earlier ones.
  void AddConnection(const WireMonitor::End& a, const WireMonitor::End& b);
  void AddDatagram(const WireMonitor::End& end) { monitor_.AddDatagram(end); }
  // The queue pair is about to be destroyed.
  void Forget(Qpn qpn);

  void OnSent(std::span<const uint8_t> frame);
  void OnDelivered(std::span<const uint8_t> frame);
  void OnImpaired(std::span<const uint8_t> frame);

  // Whether enough went wrong since the last progress to use up the retries.
  bool RetriesMayBeExceeded(Qpn requester) const;
  bool RnrRetriesMayBeExceeded(Qpn requester) const;
  // Whether the wire impaired a frame between the two since they were connected.
  bool WasImpaired(Qpn qpn) const;

  // See WireMonitor::CheckCounters. Checks nothing if a queue pair was connected twice or
  // destroyed: the wire monitor then did not see everything that the endpoint counted.
  void CheckCounters(const Endpoint& endpoint);

  // More packets than any connection of a simulation sends.
  static constexpr int32_t kPsnsOfASession = 1 << 19;

 private:
  struct Connected {
    Qpn peer;
    Psn first_psn;              // of its requests
    bool impaired = false;      // a frame to it was impaired
    bool met_the_past = false;  // a frame from an earlier connection reached it
  };
  // The fields that tell frames apart, read without looking at the checksum.
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
