#include "transport/peers/peer_processes.h"

namespace uroce::transport {
namespace {

constexpr Time kAtOnce{};

}  // namespace

PeerProcesses::Process* PeerProcesses::Find(const Gid& gid, Qpn qpn) {
  const auto found = std::ranges::find_if(processes_, [&](const Process& process) {
    return BlockOf(process.qpn) == BlockOf(qpn) && process.address.destination_gid == gid;
  });
  return found == processes_.end() ? nullptr : &*found;
}

PeerProcesses::Process& PeerProcesses::FindOrReplace(const Gid& gid, Qpn qpn) {
  if (Process* const known = Find(gid, qpn)) return *known;
  if (processes_.size() < kMaxProcesses) return processes_.emplace_back();
  Process& oldest = *std::ranges::min_element(processes_, {}, &Process::asked_at);
  oldest = {};
  return oldest;
}

bool PeerProcesses::Ask(const AddressVector& address, Qpn qpn) {
  Process& process = FindOrReplace(address.destination_gid, qpn);
  process.address = address;
  process.qpn = qpn;
  if (process.state != State::kIdle) return false;
  process.state = State::kAsked;
  process.tries = 0;
  process.transaction_id = ids_.Next();
  process.runs = false;
  process.asked_at = ++asked_;
  process.deadline = kAtOnce;
  return true;
}

bool PeerProcesses::StandsStill(const Gid& gid, Qpn qpn) const {
  const Process* const process = const_cast<PeerProcesses*>(this)->Find(gid, qpn);
  return process != nullptr && process->stands_still;
}

// The two answers may come in any order. That of the process may be late: then it runs again.
bool PeerProcesses::OnAnswer(Time now, const Gid& source, const PeerQuery& answer) {
  Process* const process = Find(source, answer.qpn);
  if (process == nullptr || answer.transaction_id != process->transaction_id) return false;
  const bool tells_that_it_runs = answer.process == PeerQuery::Process::kRuns;
  process->runs |= tells_that_it_runs;
  if (process->state == State::kAsked) {
    process->state = State::kTold;
    process->deadline = now + kPause;
  }
  const bool lives = answer.kind == PeerQuery::Kind::kAnswer &&
                     (answer.process == PeerQuery::Process::kLives || tells_that_it_runs);
  process->stands_still = lives && !process->runs;
  return true;
}

bool PeerProcesses::OnDeadline(Time now, Process& process) {
  if (process.state == State::kAsked && process.tries < kTries) {
    process.deadline = now + kFirstWait * (int64_t{1} << process.tries);
    ++process.tries;
    return true;
  }
  if (process.state == State::kAsked) process.stands_still = false;
  process.state = State::kIdle;
  process.deadline = kNever;
  return false;
}

}  // namespace uroce::transport
