#include "tests/simulation/run.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "tests/simulation/application.h"
#include "tests/simulation/checksum.h"
#include "tests/simulation/connection.h"
#include "tests/simulation/context.h"
#include "tests/simulation/datagram_application.h"
#include "tests/simulation/host.h"
#include "tests/simulation/shared_receives.h"
#include "tests/simulation/wire.h"
#include "tests/simulation/xrc_receives.h"
#include "transport/qp/timeouts.h"
#include "transport/wire/bth.h"
#include "transport/wire/encapsulation.h"
#include "transport/wire/frame_parser.h"

namespace uroce::transport::simulation {
namespace {

// Limit on the events of a run, far above any real run, so that a livelock ends.
constexpr uint64_t kMaxEvents = 20'000'000;

// The hosts, the wires between them and the programs on them.
//
//    Application   Application                 Application
//         \         /                               |
//          Host 0  ------- Wire 0>1 -------->    Host 1
//          |    ^  <------ Wire 1>0 ---------
//          +----+  Wire 0>0 (loopback)
class World {
 public:
  World(const Scenario& scenario, const RunOptions& options);

  RunResult Run();

 private:
  void BuildHosts();
  void BuildWires();
  void BuildSharedReceives();
  void BuildXrcReceives();
  void BuildConnections();
  void BuildDatagrams();
  void Send(int from, Frame frame, Route route);
  int Tamper(Frame& frame);
  static void Carry(Wire& wire, const Frame& frame, int times);
  void RunUntilFinished();
  void Heal();
  Duration LivenessBound() const;
  bool Finished() const;
  void CheckEnd();
  void CheckDatagrams();
  void Explain(RunResult& result) const;

  Scenario scenario_;
  RunOptions options_;
  Random random_;
  Simulator simulator_;
  Trace trace_;
  Verdict verdict_;
  NetworkMonitor monitor_;
  Context context_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Wire>> wires_;                      // from * hosts + to
  std::vector<std::unique_ptr<SharedReceives>> shared_receives_;  // by host; may be nullptr
  std::vector<std::unique_ptr<XrcReceives>> xrc_receives_;        // by host; may be nullptr
  std::vector<std::unique_ptr<Application>> applications_;
  std::vector<std::unique_ptr<Connection>> connections_;
  DatagramApplication::Everybody datagrams_;
  uint64_t frames_ = 0;
  uint64_t impaired_ = 0;
  bool tampered_ = false;
};

World::World(const Scenario& scenario, const RunOptions& options)
    : scenario_(scenario),
      options_(options),
      random_(scenario.seed ^ 0x5deece66d),
      trace_(options.trace),
      monitor_(verdict_, !scenario.DataMayBeWrong()),
      context_{simulator_,           trace_, verdict_, monitor_, options.uses_prediction,
               options.sends_at_once} {
  BuildHosts();
  BuildWires();
  BuildSharedReceives();
  BuildXrcReceives();
  BuildConnections();
  BuildDatagrams();
}

void World::BuildHosts() {
  for (int i = 0; i < scenario_.hosts; ++i) {
    hosts_.push_back(std::make_unique<Host>(
        context_, i, scenario_.ipv6, scenario_.frame_pacing, random_.Fork(),
        [this, i](Frame frame, Route route) { Send(i, std::move(frame), route); }));
  }
}

void World::BuildWires() {
  for (int from = 0; from < scenario_.hosts; ++from) {
    for (int to = 0; to < scenario_.hosts; ++to) {
      const Route route = from == to ? Route::kLoopback : Route::kWire;
      const Wire::Hooks hooks = {.deliver =
                                     [this, to, route](const Frame& frame) {
                                       ++frames_;
                                       hosts_[static_cast<size_t>(to)]->Receive(frame, route);
                                     },
                                 .impaired =
                                     [this, to](const Frame& frame, const char* what) {
                                       ++impaired_;
                                       trace_.OnFrame(simulator_.now(), what, to, frame);
                                       monitor_.OnImpaired(frame);
                                     },
                                 .tamper = {}};
      wires_.push_back(
          std::make_unique<Wire>(simulator_, random_.Fork(), scenario_.impairments, hooks));
    }
  }
}

void World::BuildSharedReceives() {
  for (size_t i = 0; i < hosts_.size(); ++i) {
    const SharedQueueScenario& queue = scenario_.shared_queues[i];
    shared_receives_.emplace_back();
    if (queue.bytes == 0) continue;
    uint32_t queue_pairs = 0;
    for (const ConnectionScenario& connection : scenario_.connections) {
      for (const EndScenario& end : connection.ends) {
        const bool draws = end.draws_from_shared_queue && static_cast<size_t>(end.host) == i;
        queue_pairs += draws ? connection.sessions : 0;
      }
    }
    for (const DatagramScenario& end : scenario_.datagrams) {
      queue_pairs += end.draws_from_shared_queue && static_cast<size_t>(end.host) == i ? 1 : 0;
    }
    shared_receives_[i] =
        std::make_unique<SharedReceives>(context_, *hosts_[i], queue, queue_pairs, random_.Fork());
  }
}

void World::BuildXrcReceives() {
  xrc_receives_.resize(hosts_.size());
  for (size_t i = 0; i < scenario_.xrc_queues.size(); ++i) {
    const SharedQueueScenario& queue = scenario_.xrc_queues[i];
    if (queue.bytes == 0) continue;
    uint32_t targets = 0;
    for (const ConnectionScenario& connection : scenario_.connections) {
      const bool is_xrc = connection.type == QpType::kXrcSend;
      const bool is_here = static_cast<size_t>(connection.ends[1].host) == i;
      targets += is_xrc && is_here ? connection.sessions : 0;
    }
    xrc_receives_[i] = std::make_unique<XrcReceives>(context_, *hosts_[i], queue, targets,
                                                     scenario_.DataMayBeWrong(), random_.Fork());
  }
}

void World::BuildConnections() {
  for (const ConnectionScenario& connection : scenario_.connections) {
    Application* pair[2];
    for (int i = 0; i < 2; ++i) {
      const EndScenario& end = connection.ends[i];
      const bool is_target = connection.type == QpType::kXrcSend && i == 1;
      const Application::Config config = {.end = end,
                                          .type = is_target ? QpType::kXrcReceive : connection.type,
                                          .mtu = connection.mtu,
                                          .max_message_bytes = connection.max_message_bytes,
                                          .think_time = connection.think_time,
                                          .lenient = scenario_.DataMayBeWrong(),
                                          .wire_scrambles = scenario_.WireScrambles(),
                                          .sabotage = options_.sabotage};
      const size_t host = static_cast<size_t>(end.host);
      SharedReceives* shared = end.draws_from_shared_queue ? shared_receives_[host].get() : nullptr;
      XrcReceives* xrc = is_target ? xrc_receives_[host].get() : nullptr;
      applications_.push_back(std::make_unique<Application>(context_, *hosts_[host], config, shared,
                                                            xrc, random_.Fork()));
      pair[i] = applications_.back().get();
    }
    connections_.push_back(
        std::make_unique<Connection>(context_, connection, *pair[0], *pair[1], random_.Fork()));
    for (const EndScenario& end : connection.ends) {
      hosts_[static_cast<size_t>(end.host)]->AddProcess(*connections_.back());
    }
  }
}

void World::BuildDatagrams() {
  for (const DatagramScenario& end : scenario_.datagrams) {
    const auto host = static_cast<size_t>(end.host);
    const DatagramApplication::Config config = {
        .scenario = end,
        .ipv6 = scenario_.ipv6,
        .lenient = scenario_.DataMayBeWrong(),
        .wire_scrambles = scenario_.WireScrambles(),
        .wire_corrupts = scenario_.impairments.corrupt_ppm != 0};
    SharedReceives* shared = end.draws_from_shared_queue ? shared_receives_[host].get() : nullptr;
    datagrams_.push_back(std::make_unique<DatagramApplication>(context_, *hosts_[host], config,
                                                               shared, datagrams_, random_.Fork()));
  }
}

void World::Carry(Wire& wire, const Frame& frame, int times) {
  for (; times > 0; --times) wire.Send(frame);
}

void World::Send(int from, Frame frame, Route route) {
  const auto own = static_cast<size_t>(from);
  const int times = Tamper(frame);
  if (route == Route::kLoopback) return Carry(*wires_[own * hosts_.size() + own], frame, times);
  // The switch forwards by destination address: byte 5 of the MAC is the host's number.
  const bool multicast = (frame[0] & 1) != 0;
  bool sent = multicast;
  for (size_t to = 0; to < hosts_.size(); ++to) {
    if (to == own || (!multicast && to != frame[5] - 1u)) continue;
    Carry(*wires_[own * hosts_.size() + to], frame, times);
    sent = true;
  }
  if (!sent) verdict_.Fail("host ", from, " sends a frame to nobody");
}

// Returns how often the frame arrives.
int World::Tamper(Frame& frame) {
  if (options_.tampering == Tampering::kNone || tampered_) return 1;
  Packet packet;
  if (ParseFrame(frame, packet) != DropReason::kNone) return 1;
  const bool is_datagram = packet.opcode.HasDeth();
  const bool is_unreliable_send = packet.opcode.service != Service::kReliableConnection &&
                                  packet.opcode.operation == Operation::kSend &&
                                  packet.opcode.position == Position::kOnly;
  const auto at = [&](const uint8_t* byte) { return static_cast<size_t>(byte - frame.data()); };
  switch (options_.tampering) {
    case Tampering::kFlipPayloadBit:
      if (packet.payload.empty()) return 1;
      frame[at(packet.payload.data())] ^= 0x10;
      break;
    case Tampering::kRepeatUnreliable:
      // An empty message cannot be told from other empty ones.
      return is_unreliable_send && packet.payload.size() >= 8 ? 2 : 1;
    case Tampering::kRightQkey:
      if (!is_datagram || packet.deth.qkey != (DatagramApplication::kQkey ^ 1)) return 1;
      frame[FindRocePacket(frame)->bth_at() + Bth::kBytes + 3] ^= 1;
      break;
    case Tampering::kHopLimit:
      if (!is_datagram || !scenario_.ipv6) return 1;
      frame[EthernetHeader::kBytes + 7] ^= 1;
      break;
    default:
      return is_datagram ? 0 : 1;
  }
  tampered_ = true;
  Reseal(frame);
  return 1;
}

bool World::Finished() const {
  return std::all_of(connections_.begin(), connections_.end(),
                     [](const auto& connection) { return connection->finished(); }) &&
         std::all_of(datagrams_.begin(), datagrams_.end(),
                     [](const auto& end) { return end->finished(); });
}

// The longest time from the healing of the wire until everything is done.
Duration World::LivenessBound() const {
  Duration bound = Milliseconds(1'000);
  for (const ConnectionScenario& connection : scenario_.connections) {
    for (const EndScenario& end : connection.ends) {
      const Duration timeout = AckTimeout(end.timeout).value_or(Duration{});
      // Every request may have to time out once more; late receives can delay each request.
      bound = bound + (timeout * (end.retry_count + 2) * 2 +
                       (RnrDelay(end.min_rnr_timer) * 8 + connection.think_time * 40) *
                           (end.work_requests + 20)) *
                          connection.sessions;
    }
  }
  return bound;
}

void World::Heal() {
  for (const auto& wire : wires_) wire->Heal();
  trace_.OnEvent(simulator_.now(), "the wire is perfect from now on", {});
}

void World::RunUntilFinished() {
  const Time heals_at = Time{} + scenario_.fault_phase;
  const Time gives_up_at = heals_at + LivenessBound();
  simulator_.At(heals_at, [this] { Heal(); });
  while (!verdict_.failed()) {
    if (Finished() && simulator_.now() >= heals_at) return;
    if (!simulator_.RunOne()) {
      if (!Finished()) verdict_.Fail("nothing will ever happen again, and work is outstanding");
      return;
    }
    if (simulator_.now() > gives_up_at || simulator_.events_run() > kMaxEvents) {
      return verdict_.Fail("not finished ", (simulator_.now() - heals_at).ns / 1'000,
                           " us after the wire healed, ", simulator_.events_run(), " events");
    }
  }
}

// Lets frames and timers under way arrive, then checks everything.
void World::CheckEnd() {
  const Time until = simulator_.now() + Milliseconds(20);
  bool more = true;
  simulator_.At(until, [&more] { more = false; });
  while (more && !verdict_.failed()) simulator_.RunOne();
  for (const auto& connection : connections_) connection->CheckEnd();
  for (const auto& end : datagrams_) end->CheckEnd();
  if (scenario_.DataMayBeWrong()) return;
  CheckDatagrams();
  for (const auto& host : hosts_) {
    host->counters().Check(verdict_);
    monitor_.CheckCounters(host->endpoint());
  }
}

// If the wire impaired nothing, every datagram arrives or is counted where it was dropped.
void World::CheckDatagrams() {
  const bool restless = std::any_of(datagrams_.begin(), datagrams_.end(),
                                    [](const auto& end) { return end->was_reset(); });
  if (impaired_ != 0 || restless) return;
  for (const auto& host : hosts_) {
    uint64_t refused = 0;
    uint64_t missing = 0;
    for (const auto& end : datagrams_) {
      if (&end->host() != host.get()) continue;
      refused += end->refused();
      missing += end->missing();
    }
    const Counters& counters = host->endpoint().counters();
    const uint64_t counted = counters.drops(DropReason::kBadQkey);
    if (counted != refused) {
      verdict_.Fail("counted ", counted, " datagrams with a wrong Q_Key of ", refused);
    }
    const uint64_t dropped =
        counters.drops(DropReason::kReceiverNotReady) + counters.drops(DropReason::kMessageTooLong);
    if (missing > dropped) {
      verdict_.Fail(missing, " datagrams are missing and ", dropped, " were dropped");
    }
  }
}

RunResult World::Run() {
  for (const Silence& silence : scenario_.silences) {
    simulator_.At(silence.from, [this, silence] {
      for (size_t i = 0; i < wires_.size(); ++i) {
        const size_t host = static_cast<size_t>(silence.host);
        const bool touches = i / hosts_.size() == host || i % hosts_.size() == host;
        const bool loopback = i / hosts_.size() == i % hosts_.size();
        if (touches && !loopback) wires_[i]->SilenceUntil(silence.until);
      }
    });
  }
  for (const auto& connection : connections_) connection->Start();
  for (const auto& host : hosts_) host->UpdateAfterEvent();
  RunUntilFinished();
  if (!verdict_.failed()) CheckEnd();

  RunResult result;
  result.ok = !verdict_.failed();
  result.trace_hash = trace_.hash();
  result.frames = frames_;
  result.impaired = impaired_;
  result.end = simulator_.now();
  if (!result.ok) Explain(result);
  return result;
}

void World::Explain(RunResult& result) const {
  result.failure = Text("FAILED after ", simulator_.now().ns / 1'000, " us: ", verdict_.reason(),
                        "\n", Describe(scenario_));
  for (const auto& application : applications_) result.failure += application->Progress() + "\n";
  for (const auto& end : datagrams_) result.failure += end->Progress() + "\n";
  result.failure += Text("See it again: bazel run -c opt //tests/simulation:soak -- --seed ",
                         scenario_.seed, options_.uses_xrc ? " --xrc" : "", " --trace\n");
}

}  // namespace

RunResult RunSeed(uint64_t seed, const RunOptions& options) {
  return World(options.uses_xrc ? MakeXrcScenario(seed) : MakeScenario(seed), options).Run();
}

}  // namespace uroce::transport::simulation
