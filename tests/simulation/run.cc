#include "tests/simulation/run.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "tests/simulation/checksum.h"
#include "tests/simulation/context.h"
#include "tests/simulation/host.h"
#include "tests/simulation/wire.h"
#include "transport/qp/timeouts.h"
#include "transport/wire/frame_parser.h"

namespace uroce::simulation {
namespace {

using transport::Duration;
using transport::Route;
using transport::Time;

// Events that a run may take: far more than any takes, so that a livelock ends.
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
  void BuildConnections();
  void Send(int from, Frame frame, Route route);
  void Tamper(Frame& frame);
  void RunUntilFinished();
  void Heal();
  Duration LivenessBound() const;
  bool Finished() const;
  void CheckEnd();
  void Explain(RunResult& result) const;

  Scenario scenario_;
  RunOptions options_;
  Random random_;
  Simulator simulator_;
  Trace trace_;
  Verdict verdict_;
  WireMonitor monitor_;
  Context context_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Wire>> wires_;  // from * hosts + to
  std::vector<std::unique_ptr<Application>> applications_;
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
      context_{simulator_, trace_, verdict_, monitor_} {
  BuildHosts();
  BuildWires();
  BuildConnections();
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
      const Wire::Hooks hooks = {.deliver =
                                     [this, to](const Frame& frame) {
                                       ++frames_;
                                       hosts_[static_cast<size_t>(to)]->Receive(frame);
                                     },
                                 .impaired =
                                     [this, to](const Frame& frame, const char* what) {
                                       ++impaired_;
                                       trace_.OnFrame(simulator_.now(), what, to, frame);
                                       monitor_.OnImpaired(frame);
                                     },
                                 .tamper = [this](Frame& frame) { Tamper(frame); }};
      wires_.push_back(
          std::make_unique<Wire>(simulator_, random_.Fork(), scenario_.impairments, hooks));
    }
  }
}

void World::BuildConnections() {
  for (const ConnectionScenario& connection : scenario_.connections) {
    Application* pair[2];
    for (int i = 0; i < 2; ++i) {
      const Application::Config config = {.end = connection.ends[i],
                                          .mtu = connection.mtu,
                                          .max_message_bytes = connection.max_message_bytes,
                                          .think_time = connection.think_time,
                                          .lenient = scenario_.DataMayBeWrong(),
                                          .sabotage = options_.sabotage};
      Host& host = *hosts_[static_cast<size_t>(connection.ends[i].host)];
      applications_.push_back(
          std::make_unique<Application>(context_, host, config, random_.Fork()));
      pair[i] = applications_.back().get();
    }
    Application::Connect(*pair[0], *pair[1]);
  }
}

void World::Send(int from, Frame frame, Route route) {
  size_t to = static_cast<size_t>(from);
  if (route == Route::kWire) {
    // The switch goes by the destination address: byte 5 of the MAC is the host's number.
    to = frame[5] - 1u;
    if (to >= hosts_.size() || to == static_cast<size_t>(from)) {
      return verdict_.Fail("host ", from, " sends a frame to nobody");
    }
  }
  wires_[static_cast<size_t>(from) * hosts_.size() + to]->Send(std::move(frame));
}

void World::Tamper(Frame& frame) {
  if (!options_.flip_payload_bit || tampered_) return;
  transport::Packet packet;
  if (ParseFrame(frame, packet) != transport::DropReason::kNone || packet.payload.empty()) return;
  tampered_ = true;
  frame[static_cast<size_t>(packet.payload.data() - frame.data())] ^= 0x10;
  Reseal(frame);
}

bool World::Finished() const {
  return std::all_of(applications_.begin(), applications_.end(),
                     [](const auto& application) { return application->finished(); });
}

// What may pass, at the worst, from when the wire is perfect until everything is done.
Duration World::LivenessBound() const {
  Duration bound = transport::Milliseconds(1'000);
  for (const auto& application : applications_) {
    const EndScenario& end = application->config().end;
    const Duration timeout = transport::AckTimeout(end.timeout).value_or(Duration{});
    // Everything may have to time out once more; late receives can make each request wait.
    bound = bound + timeout * (end.retry_count + 2) * 2 +
            (transport::RnrDelay(end.min_rnr_timer) * 8 + application->config().think_time * 40) *
                (end.work_requests + 20);
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

// Lets frames and timers that are still on their way arrive, then looks at everything.
void World::CheckEnd() {
  const Time until = simulator_.now() + transport::Milliseconds(20);
  bool more = true;
  simulator_.At(until, [&more] { more = false; });
  while (more && !verdict_.failed()) simulator_.RunOne();
  for (const auto& application : applications_) application->CheckEnd();
  if (scenario_.DataMayBeWrong()) return;
  for (const auto& host : hosts_) host->counters().Check(verdict_);
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
  for (const auto& application : applications_) application->Start();
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
  result.failure += Text("See it again: bazel run -c opt //tests/simulation:soak -- --seed ",
                         scenario_.seed, " --trace\n");
}

}  // namespace

RunResult RunSeed(uint64_t seed, const RunOptions& options) {
  return World(MakeScenario(seed), options).Run();
}

}  // namespace uroce::simulation
