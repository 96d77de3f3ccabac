#include "tests/system/mover/session.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <sstream>
#include <stdexcept>

#include "tests/system/mover/model.h"
#include "tests/system/mover/random.h"

namespace mover {
namespace {

using Clock = std::chrono::steady_clock;
using system_test::Fail;
using system_test::QueuePairAddress;
using system_test::RcQueuePair;

// The run has failed if no completion comes for this long.
constexpr std::chrono::seconds kTimeout(60);
constexpr uint32_t kMaxPsn = 0xffffff;

// Half of the queue pairs soon wrap around the PSN space.
uint32_t FirstPsn(const Workload& workload, uint32_t index, bool is_client) {
  Random random(Mix(workload.seed + index) + (is_client ? 1 : 0));
  return random.Chance(50) ? kMaxPsn - random.Below(500) : random.Below(kMaxPsn);
}

void Compare(std::span<const uint8_t> found, const std::vector<uint8_t>& expected,
             const std::string& where) {
  const auto [difference, expected_there] =
      std::mismatch(found.begin(), found.end(), expected.begin());
  if (difference == found.end()) return;
  size_t count = 0;
  for (size_t i = 0; i < found.size(); ++i) count += found[i] != expected[i];
  std::ostringstream sentence;
  sentence << where << ": " << count << " bytes are wrong, the first at offset "
           << difference - found.begin() << ": " << unsigned{*difference} << " instead of "
           << unsigned{*expected_there};
  throw std::runtime_error(sentence.str());
}

}  // namespace

Session::Session(const system_test::Device& device, ControlChannel* channel,
                 const Workload& workload, const SessionOptions& options)
    : device_(device),
      channel_(channel),
      workload_(workload),
      options_(options),
      domain_(ibv_alloc_pd(device.context())) {
  if (domain_ == nullptr) Fail("ibv_alloc_pd", errno);
  const uint32_t depth = std::max(kSendQueueDepth, MaxOperations(workload));
  completions_ = std::make_unique<CompletionSource>(
      device.context(), static_cast<int>(depth * workload.queue_pairs), options.use_events);
  const ibv_qp_cap capabilities{.max_send_wr = kSendQueueDepth,
                                .max_recv_wr = MaxOperations(workload),
                                .max_send_sge = kMaxSges,
                                .max_recv_sge = kMaxSges,
                                .max_inline_data = kMaxInlineBytes};
  for (uint32_t i = 0; i < workload.queue_pairs; ++i) {
    const std::string suffix = " of queue pair " + std::to_string(i);
    Pair pair;
    pair.queue_pair = std::make_unique<RcQueuePair>(
        device, domain_.get(), completions_->send_queue(), completions_->receive_queue(),
        capabilities, FirstPsn(workload, i, options.is_client));
    ibv_qp* qp = pair.queue_pair->get();
    pair.initiator = std::make_unique<Initiator>("initiator" + suffix, qp, workload.arena_bytes);
    pair.target = std::make_unique<Target>("target" + suffix, qp, workload.arena_bytes);
    index_of_qp_[qp->qp_num] = i;
    pairs_.push_back(std::move(pair));
  }
  Connect();
}

void Session::Connect() {
  std::vector<QueuePairAddress> ours;
  for (const Pair& pair : pairs_) ours.push_back(pair.queue_pair->address());
  const std::vector<QueuePairAddress> theirs = channel_->Exchange(ours);
  for (size_t i = 0; i < pairs_.size(); ++i) {
    pairs_[i].queue_pair->Connect(theirs[i], options_.rc);
  }
  channel_->Barrier();
}

void Session::Run() {
  for (uint32_t round = 0; round < workload_.rounds; ++round) RunRound(round);
}

void Session::RunRound(uint32_t round) {
  Prepare(round);
  ExchangeArenas();
  MoveData();
  // While one end waits here without polling, its device still has to answer the other.
  channel_->Barrier();
  completions_->ExpectNone();
  Verify(round);
  InvalidateWindows();
}

void Session::Prepare(uint32_t round) {
  uint32_t binds = 0;
  for (size_t i = 0; i < pairs_.size(); ++i) {
    Pair& pair = pairs_[i];
    const auto queue_pair = static_cast<uint32_t>(i);
    pair.outgoing = MakePlan(workload_, {queue_pair, outgoing_direction(), round});
    pair.incoming = MakePlan(workload_, {queue_pair, incoming_direction(), round});
    pair.initiator->StartRound(pair.outgoing);
    pair.target->StartRound(pair.incoming);
    binds += pair.target->PostBinds();
  }
  AwaitWindowRequests(binds);
}

void Session::ExchangeArenas() {
  std::vector<RemoteArena> ours;
  for (const Pair& pair : pairs_) ours.push_back(pair.target->description());
  const std::vector<RemoteArena> theirs = channel_->Exchange(ours);
  for (size_t i = 0; i < pairs_.size(); ++i) pairs_[i].initiator->SetRemote(theirs[i]);
}

void Session::MoveData() {
  const auto on_send = [this](const ibv_wc& completion) {
    PairOf(completion).initiator->OnCompletion(completion);
  };
  const auto on_receive = [this](const ibv_wc& completion) {
    PairOf(completion).target->OnCompletion(completion);
  };
  const auto is_done = [](const Pair& pair) {
    return pair.initiator->done() && pair.target->done();
  };
  auto last_completion = Clock::now();
  while (!std::all_of(pairs_.begin(), pairs_.end(), is_done)) {
    for (Pair& pair : pairs_) pair.initiator->Post();
    if (completions_->Handle(on_send, on_receive) > 0) {
      last_completion = Clock::now();
    } else if (Clock::now() - last_completion > kTimeout) {
      GiveUp();
    }
  }
}

void Session::GiveUp() const {
  std::string sentence = "nothing has completed for " + std::to_string(kTimeout.count()) + " s";
  for (const Pair& pair : pairs_) {
    sentence += "\n  " + pair.initiator->Progress() + "\n  " + pair.target->Progress();
  }
  throw std::runtime_error(sentence);
}

void Session::Verify(uint32_t round) {
  const std::string when = " after round " + std::to_string(round);
  for (const Pair& pair : pairs_) {
    Compare(pair.initiator->arena().bytes(), Model(pair.outgoing, workload_.arena_bytes).local(),
            pair.initiator->name() + when);
    Compare(pair.target->arena().bytes(), Model(pair.incoming, workload_.arena_bytes).remote(),
            pair.target->name() + when);
    for (const Operation& operation : pair.outgoing.operations) {
      bytes_ += operation.length;
      ++operations_[operation.kind];
    }
  }
}

void Session::InvalidateWindows() {
  uint32_t count = 0;
  for (Pair& pair : pairs_) count += pair.target->PostInvalidates();
  AwaitWindowRequests(count);
}

void Session::AwaitWindowRequests(uint32_t count) {
  const auto on_send = [&](const ibv_wc& completion) {
    if (completion.status != IBV_WC_SUCCESS) {
      throw std::runtime_error(std::string("a window operation completed with '") +
                               ibv_wc_status_str(completion.status) + "'");
    }
    --count;
  };
  const auto on_receive = [](const ibv_wc&) {
    throw std::runtime_error("a receive completed before anything was sent");
  };
  const auto start = Clock::now();
  while (count > 0) {
    completions_->Handle(on_send, on_receive);
    if (Clock::now() - start > kTimeout) throw std::runtime_error("a window operation hangs");
  }
}

Direction Session::outgoing_direction() const {
  return options_.is_client ? Direction::kClientToServer : Direction::kServerToClient;
}

Direction Session::incoming_direction() const {
  return options_.is_client ? Direction::kServerToClient : Direction::kClientToServer;
}

Session::Pair& Session::PairOf(const ibv_wc& completion) {
  const auto found = index_of_qp_.find(completion.qp_num);
  if (found == index_of_qp_.end()) throw std::runtime_error("a completion of an unknown qp_num");
  return pairs_[found->second];
}

std::string Session::Summary() const {
  std::ostringstream summary;
  summary << "bytes=" << bytes_;
  for (size_t i = 0; i < kKindNames.size(); ++i) {
    const auto found = operations_.find(static_cast<Kind>(i));
    summary << ' ' << kKindNames[i] << '=' << (found == operations_.end() ? 0 : found->second);
  }
  return summary.str();
}

}  // namespace mover
