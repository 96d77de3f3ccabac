#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/address.h"
#include "transport/ids.h"
#include "transport/peers/peer_query.h"
#include "transport/peers/transaction_ids.h"
#include "transport/route.h"
#include "transport/time.h"

namespace uroce::transport {

// Processes of other hosts that answer no packets: which of them live and stand still, as a stopped
// process does, or one that gets no processor. uroced tells that a process lives, and passes the
// query on to it; the process tells that it runs. A process stands still while only the former
// answer has come.
//
//                           "lives" or "gone"
//   kIdle --Ask--> kAsked --------------------> kTold
//     ^               | kTries without an         | kPause
//     |               | answer: "gone"            |
//     +---------------+---------------------------+
//
// The last conclusion holds while a process is asked about again.
class PeerProcesses {
 public:
  // The process that was asked about longest ago makes room for another one.
  static constexpr size_t kMaxProcesses = 256;
  static constexpr int kTries = 5;
  static constexpr Duration kFirstWait = Milliseconds(20);  // each further one is twice as long
  // How old a conclusion is at the most when Ask does nothing.
  static constexpr Duration kPause = Milliseconds(20);

  explicit PeerProcesses(TransactionIds& ids) : ids_(ids) {}

  // Asks about the process that has queue pair `qpn` unless it is being asked about, or was within
  // kPause. Returns whether Run is due.
  bool Ask(const AddressVector& address, Qpn qpn);
  // Of the process that has queue pair `qpn`, by the last query that uroced has answered.
  bool StandsStill(const Gid& gid, Qpn qpn) const;
  // Returns false if no query waits for this answer.
  bool OnAnswer(Time now, const Gid& source, const PeerQuery& answer);

  // Calls `send(address, query)` for each query that is to be sent now. Returns the next deadline.
  template <class Send>
  Time Run(Time now, Send send);

 private:
  enum class State : uint8_t { kIdle, kAsked, kTold };
  struct Process {
    AddressVector address;
    Qpn qpn;
    State state = State::kIdle;
    int tries = 0;
    uint64_t transaction_id = 0;
    bool runs = false;          // it has answered the query with this id
    bool stands_still = false;  // the conclusion
    uint64_t asked_at = 0;      // in order
    Time deadline = kNever;
  };

  Process* Find(const Gid& gid, Qpn qpn);
  Process& FindOrReplace(const Gid& gid, Qpn qpn);
  // Returns whether a query is to be sent.
  static bool OnDeadline(Time now, Process& process);

  TransactionIds& ids_;
  std::vector<Process> processes_;
  uint64_t asked_ = 0;
};

template <class Send>
Time PeerProcesses::Run(Time now, Send send) {
  Time next = kNever;
  for (Process& process : processes_) {
    if (process.deadline <= now && OnDeadline(now, process)) {
      send(process.address,
           PeerQuery{.transaction_id = process.transaction_id, .qpn = process.qpn});
    }
    next = std::min(next, process.deadline);
  }
  return next;
}

}  // namespace uroce::transport
