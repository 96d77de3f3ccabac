#include "tests/simulation/scenario.h"

#include <algorithm>

#include "tests/simulation/random.h"
#include "tests/simulation/verdict.h"
#include "transport/limits.h"
#include "transport/qp/timeouts.h"

namespace uroce::transport::simulation {
namespace {

Impairments MakeImpairments(Random& random) {
  Impairments result;
  result.latency = Microseconds(static_cast<int64_t>(random.Between(1, 20)));
  result.jitter = Microseconds(static_cast<int64_t>(random.Below(10)));
  result.held_back = Microseconds(static_cast<int64_t>(random.Between(1, 100)));
  // Most runs have one or a few kinds of trouble, so that each occurs alone and combined.
  const bool everything = random.Percent(10);
  const auto wanted = [&] { return everything || random.Percent(22); };
  if (wanted()) result.loss_ppm = random.Pick<uint32_t>({100, 1'000, 10'000, 50'000, 100'000});
  if (wanted()) {
    result.burst_ppm = random.Pick<uint32_t>({500, 2'000, 10'000});
    result.burst_frames = random.Pick<uint32_t>({2, 8, 40});
  }
  if (wanted()) result.duplicate_ppm = random.Pick<uint32_t>({1'000, 20'000, 200'000});
  if (wanted()) result.reorder_ppm = random.Pick<uint32_t>({1'000, 20'000, 200'000});
  if (wanted()) result.corrupt_ppm = random.Pick<uint32_t>({1'000, 20'000, 100'000});
  if (wanted()) {
    result.bytes_per_us = random.Pick<uint64_t>({125, 1'250, 12'500});  // 1, 10, 100 Gbit/s
    if (random.Percent(50)) result.queue_frames = random.Pick<uint32_t>({8, 32, 128, 512});
  }
  if (random.Percent(4)) result.reseal_ppm = random.Pick<uint32_t>({1'000, 10'000, 50'000});
  return result;
}

Psn RandomPsn(Random& random) {
  if (random.Percent(30)) return Psn(Psn::kMask - static_cast<uint32_t>(random.Below(200)));
  if (random.Percent(10)) return Psn(0x80'0000 - static_cast<uint32_t>(random.Below(100)));
  return Psn(static_cast<uint32_t>(random.Next()));
}

// A generous bound for a response on a wire that loses nothing.
Duration WorstRoundTrip(const Scenario& scenario) {
  const Impairments& wire = scenario.impairments;
  Duration result = (wire.latency + wire.jitter + wire.held_back) * 2;
  const auto frames =
      static_cast<int64_t>(256 * scenario.connections.size() * 2 + 64 * scenario.datagrams.size());
  result = result + scenario.frame_pacing * frames;
  if (wire.bytes_per_us != 0) {
    // The healed wire holds any number of frames.
    result = result + Duration{frames * 4'200 * 1'000 / static_cast<int64_t>(wire.bytes_per_us)};
  }
  return result;
}

uint8_t TimeoutLongerThan(Duration duration) {
  uint8_t code = 1;
  while (*AckTimeout(code) < duration) ++code;
  return code;
}

void MakeTimers(Random& random, const Scenario& scenario, EndScenario& end) {
  const uint8_t sufficient = TimeoutLongerThan(WorstRoundTrip(scenario) * 2);
  end.timeout = static_cast<uint8_t>(sufficient + random.Below(4));
  end.retry_count = random.Percent(80) ? 7 : static_cast<uint8_t>(random.Below(7));
  if (random.Percent(8)) {  // retransmits packets that are only late
    end.timeout = static_cast<uint8_t>(random.Between(1, sufficient));
    end.timeout_too_short = true;
  }
  end.rnr_retry = random.Percent(85) ? 7 : static_cast<uint8_t>(random.Below(7));
  end.min_rnr_timer =
      static_cast<uint8_t>(random.Percent(80) ? random.Between(1, 12) : random.Below(32));
}

// An end that never times out must never lose a packet. A packet that arrives early counts as lost
// too.
bool NothingGetsLost(const Scenario& scenario, const ConnectionScenario& connection) {
  const Impairments& wire = scenario.impairments;
  for (const EndScenario& end : connection.ends) {
    if (end.poison != Poison::kNone || end.overruns || end.rnr_retry != 7 || end.retry_count != 7)
      return false;
  }
  return connection.sessions == 1 && wire.loss_ppm == 0 && wire.burst_ppm == 0 &&
         wire.corrupt_ppm == 0 && wire.reorder_ppm == 0 && wire.queue_frames == 0 &&
         wire.reseal_ppm == 0 && scenario.silences.empty();
}

void MakeHabits(Random& random, EndScenario& end) {
  end.posts_single_receives = random.Percent(15);
  end.shares_completion_queue = random.Percent(40);
  end.overruns = random.Percent(4);
  end.is_restless = random.Percent(35);
  if (random.Percent(2)) end.capabilities.max_send_wr = random.Pick<uint32_t>({1'000, 16'384});
  if (random.Percent(2)) end.capabilities.max_receive_wr = random.Pick<uint32_t>({1'000, 16'384});
  if (end.capabilities.max_send_wr + end.capabilities.max_receive_wr >= 1'000) {
    end.capabilities.max_send_sge = end.capabilities.max_receive_sge = 2;
    end.capabilities.max_inline_bytes = 0;
  }
}

// Each lost or overtaken packet makes a READ repeat its whole rest (go-back-N): on a harsh wire a
// long READ takes millions of frames.
void ShortenMessages(const Impairments& wire, ConnectionScenario& connection) {
  constexpr uint32_t kHarshPpm = 10'000;
  constexpr uint32_t kPackets = 64;
  const uint32_t worst =
      std::max({wire.loss_ppm, wire.burst_ppm * wire.burst_frames, wire.reorder_ppm,
                wire.duplicate_ppm, wire.corrupt_ppm, wire.reseal_ppm});
  if (worst < kHarshPpm) return;
  connection.max_message_bytes =
      std::min(connection.max_message_bytes, kPackets * Bytes(connection.mtu));
}

// The sessions share the work, so that a run does not get longer.
void MakeSessions(Random& random, ConnectionScenario& connection) {
  if (random.Percent(25)) connection.type = QpType::kUnreliableConnection;
  if (random.Percent(35)) connection.sessions = static_cast<uint32_t>(random.Between(2, 4));
  connection.poisoned_session = static_cast<uint32_t>(random.Below(connection.sessions));
  connection.ends_abruptly = random.Percent(50);
  connection.destroys_percent = random.Pick<uint32_t>({0, 50, 100});
  for (EndScenario& end : connection.ends) {
    end.work_requests = (end.work_requests + connection.sessions - 1) / connection.sessions;
    end.poison_at = static_cast<uint32_t>(random.Below(end.work_requests + 1));
    if (connection.type != QpType::kUnreliableConnection) continue;
    end.overruns = false;  // a request completes, and may end the queue pair, with its last packet
    if (end.poison == Poison::kMisalignedAtomic || end.poison == Poison::kReadOnlySink ||
        end.poison == Poison::kForeignSendInvalidate) {
      end.poison = Poison::kBadLkey;
    }
  }
}

void MakeDatagrams(Random& random, Scenario& scenario) {
  if (!random.Percent(25)) return;
  for (uint64_t left = random.Between(2, 5); left > 0; --left) {
    DatagramScenario end;
    end.host = static_cast<int>(random.Below(static_cast<uint64_t>(scenario.hosts)));
    end.groups = static_cast<uint32_t>(random.Below(1 << DatagramScenario::kGroups));
    end.capabilities.max_send_wr = random.Pick<uint32_t>({1, 2, 16, 64});
    end.capabilities.max_receive_wr = random.Pick<uint32_t>({1, 7, 32});
    end.capabilities.max_send_sge = random.Pick<uint32_t>({1, 4});
    end.capabilities.max_receive_sge = random.Pick<uint32_t>({1, 4});
    end.max_bytes = random.Pick<uint32_t>({8, 300, 4'096});
    end.receive_bytes = kGrhBytes + random.Pick<uint32_t>({0, 300, 4'096, 4'096});
    end.think_time = Microseconds(random.Pick<int64_t>({0, 1, 10, 100}));
    end.polls_late = random.Percent(25);
    end.posts_receives_late = random.Percent(25);
    end.is_restless = random.Percent(40);
    end.work_requests = static_cast<uint32_t>(random.Between(0, 40));
    scenario.datagrams.push_back(end);
  }
}

// A host has at most one shared receive queue, with room for the longest message of its users.
void MakeSharedQueues(Random& random, Scenario& scenario) {
  constexpr uint32_t kLongestMessage = 32'768;
  scenario.shared_queues.resize(static_cast<size_t>(scenario.hosts));
  for (SharedQueueScenario& queue : scenario.shared_queues) {
    if (!random.Percent(30)) continue;
    queue.entries = random.Pick<uint32_t>({1, 2, 5, 16});
    queue.max_sges = random.Pick<uint32_t>({1, 3, 32});
    queue.think_time = Microseconds(random.Pick<int64_t>({0, 1, 10, 100}));
    queue.runs_dry = random.Percent(40);
  }
  for (ConnectionScenario& connection : scenario.connections) {
    for (EndScenario& end : connection.ends) {
      SharedQueueScenario& queue = scenario.shared_queues[static_cast<size_t>(end.host)];
      const bool fits = connection.max_message_bytes <= kLongestMessage;
      if (queue.entries == 0 || !fits || !random.Percent(70)) continue;
      end.draws_from_shared_queue = true;
      end.polls_late = false;  // completions must keep the order of messages
      end.overruns = false;    // a request whose completion is lost is lost to all
      queue.bytes = std::max(queue.bytes, connection.max_message_bytes);
    }
  }
  for (DatagramScenario& end : scenario.datagrams) {
    SharedQueueScenario& queue = scenario.shared_queues[static_cast<size_t>(end.host)];
    if (queue.entries == 0 || !random.Percent(70)) continue;
    end.draws_from_shared_queue = true;
    end.polls_late = false;
    queue.bytes = std::max(queue.bytes, kGrhBytes + 4'096);
  }
}

EndScenario MakeEnd(Random& random, const ConnectionScenario& connection) {
  EndScenario end;
  end.first_psn = RandomPsn(random);
  end.max_read_atomic = random.Pick<uint8_t>({1, 1, 2, 4, 16, 128});
  end.capabilities.max_send_wr = random.Pick<uint32_t>({1, 2, 7, 16, 64, 128});
  end.capabilities.max_receive_wr = random.Pick<uint32_t>({1, 2, 7, 16, 64});
  end.capabilities.max_send_sge = random.Pick<uint32_t>({1, 2, 5, 32});
  end.capabilities.max_receive_sge = random.Pick<uint32_t>({1, 2, 5, 32});
  end.capabilities.max_inline_bytes = random.Pick<uint32_t>({0, 13, 64, 512});
  end.signal_all = random.Percent(20);
  end.polls_late = random.Percent(25);
  end.posts_receives_late = random.Percent(25);
  end.unsignaled_percent = random.Pick<uint32_t>({0, 0, 30, 70, 95});
  end.one_kind = random.Percent(70) ? 0 : static_cast<uint32_t>(random.Between(1, 10));
  end.work_requests = static_cast<uint32_t>(random.Between(0, 60));
  if (connection.max_message_bytes > 100'000) end.work_requests /= 8;
  end.poison_at = static_cast<uint32_t>(random.Below(end.work_requests + 1));
  MakeHabits(random, end);
  return end;
}

ConnectionScenario MakeConnection(Random& random, int hosts) {
  ConnectionScenario connection;
  connection.mtu = random.Pick({Mtu::k256, Mtu::k512, Mtu::k1024, Mtu::k2048, Mtu::k4096});
  connection.max_message_bytes = Bytes(connection.mtu) * random.Pick<uint32_t>({1, 3, 8, 16});
  if (random.Percent(2)) connection.max_message_bytes = random.Pick({300'000, 1 << 20, 3 << 20});
  connection.think_time = Microseconds(random.Pick<int64_t>({0, 1, 10, 100, 1'000}));
  for (EndScenario& end : connection.ends) end = MakeEnd(random, connection);
  connection.ends[0].host = static_cast<int>(random.Below(static_cast<uint64_t>(hosts)));
  connection.ends[1].host = (connection.ends[0].host + 1) % hosts;
  if (random.Percent(10)) connection.ends[1].host = connection.ends[0].host;  // loopback
  if (random.Percent(20)) {
    connection.ends[0].poison = static_cast<Poison>(random.Between(1, kPoisons - 1));
  }
  MakeSessions(random, connection);
  for (int i = 0; i < 2; ++i) {
    EndScenario& responder = connection.ends[1 - i];
    const EndScenario& requester = connection.ends[i];
    responder.max_dest_read_atomic = requester.max_read_atomic;
    if (random.Percent(20) && responder.max_dest_read_atomic < 100) {
      responder.max_dest_read_atomic = static_cast<uint8_t>(requester.max_read_atomic + 5);
    }
  }
  return connection;
}

const char* TypeName(QpType type) {
  if (type == QpType::kXrcSend) return "XRC";
  return type == QpType::kReliableConnection ? "RC" : "UC";
}

}  // namespace

Scenario MakeScenario(uint64_t seed) {
  Random random(seed * 0x2545f4914f6cdd1d + 1);
  Scenario scenario;
  scenario.seed = seed;
  scenario.hosts = random.Percent(80) ? 2 : 3;
  scenario.ipv6 = random.Percent(30);
  scenario.impairments = MakeImpairments(random);
  scenario.fault_phase = Milliseconds(random.Pick<int64_t>({1, 5, 20, 100}));
  if (random.Percent(15)) scenario.frame_pacing = Duration{random.Pick<int64_t>({50, 350, 3'500})};
  if (random.Percent(8)) {
    const auto from_us = static_cast<int64_t>(random.Below(1'000));
    const auto length_us = random.Pick<int64_t>({50, 500, 5'000, 50'000});
    scenario.silences.push_back(
        {static_cast<int>(random.Below(2)), {from_us * 1'000}, {(from_us + length_us) * 1'000}});
  }
  for (uint64_t left = random.Pick<uint64_t>({1, 1, 2, 3, 6}); left > 0; --left) {
    scenario.connections.push_back(MakeConnection(random, scenario.hosts));
    ShortenMessages(scenario.impairments, scenario.connections.back());
  }
  MakeDatagrams(random, scenario);
  MakeSharedQueues(random, scenario);
  for (ConnectionScenario& connection : scenario.connections) {
    for (EndScenario& end : connection.ends) MakeTimers(random, scenario, end);
    if (random.Percent(10) && NothingGetsLost(scenario, connection)) {
      for (EndScenario& end : connection.ends) end.timeout = 0;
    }
  }
  return scenario;
}

namespace {

// Keeps one direction: from the first end, the initiator, to the second, the target.
void MakeXrc(ConnectionScenario& connection) {
  constexpr uint32_t kLongestMessage = 32'768;
  connection.type = QpType::kXrcSend;
  connection.max_message_bytes = std::min(connection.max_message_bytes, kLongestMessage);
  EndScenario& initiator = connection.ends[0];
  const bool is_of_initiator =
      initiator.poison != Poison::kNoExposedMemory && initiator.poison != Poison::kNoInbox;
  if (!is_of_initiator) initiator.poison = Poison::kNone;
  initiator.draws_from_shared_queue = false;
  EndScenario& target = connection.ends[1];
  target.work_requests = 0;
  target.poison = Poison::kNone;
  target.draws_from_shared_queue = false;
  target.polls_late = false;  // completions must keep the order of messages
  target.overruns = false;
  target.is_restless = false;
}

}  // namespace

Scenario MakeXrcScenario(uint64_t seed) {
  Scenario scenario = MakeScenario(seed);
  Random random(seed * 0x9e3779b97f4a7c15 + 1);
  scenario.xrc_queues.resize(static_cast<size_t>(scenario.hosts));
  for (SharedQueueScenario& queue : scenario.xrc_queues) {
    queue.entries = random.Pick<uint32_t>({1, 2, 5, 16});
    queue.max_sges = random.Pick<uint32_t>({1, 3, 32});
    queue.think_time = Microseconds(random.Pick<int64_t>({0, 1, 10, 100}));
    queue.runs_dry = random.Percent(40);
  }
  for (ConnectionScenario& connection : scenario.connections) {
    const bool is_reliable = connection.type == QpType::kReliableConnection;
    if (!is_reliable || !random.Percent(80)) continue;
    MakeXrc(connection);
    auto& queue = scenario.xrc_queues[static_cast<size_t>(connection.ends[1].host)];
    queue.bytes = std::max(queue.bytes, connection.max_message_bytes);
  }
  return scenario;
}

std::string Describe(const Scenario& scenario) {
  const Impairments& wire = scenario.impairments;
  std::string text = Text(
      "seed ", scenario.seed, ": ", scenario.hosts, " hosts, ipv", scenario.ipv6 ? 6 : 4,
      ", latency ", wire.latency.ns, "+", wire.jitter.ns, " ns, line ", wire.bytes_per_us,
      " B/us, queue ", wire.queue_frames, " frames, ppm: loss ", wire.loss_ppm, " burst ",
      wire.burst_ppm, "x", wire.burst_frames, " duplicate ", wire.duplicate_ppm, " reorder ",
      wire.reorder_ppm, " corrupt ", wire.corrupt_ppm, " reseal ", wire.reseal_ppm, ", faults for ",
      scenario.fault_phase.ns / 1'000, " us, pacing ", scenario.frame_pacing.ns, " ns\n");
  for (const Silence& silence : scenario.silences) {
    text += Text("  host ", silence.host, " silent from ", silence.from.ns / 1'000, " to ",
                 silence.until.ns / 1'000, " us\n");
  }
  for (const ConnectionScenario& connection : scenario.connections) {
    text += Text("  ", TypeName(connection.type), " connection: mtu ", Bytes(connection.mtu),
                 ", messages up to ", connection.max_message_bytes, " bytes, ", connection.sessions,
                 " sessions", connection.ends_abruptly ? " that end abruptly" : "",
                 ", poison in session ", connection.poisoned_session, "\n");
    for (const EndScenario& end : connection.ends) {
      text +=
          Text("    host ", end.host, ": psn ", end.first_psn.value(), ", reads ",
               int{end.max_read_atomic}, "/", int{end.max_dest_read_atomic}, ", timeout ",
               int{end.timeout}, " retry ", int{end.retry_count}, ", rnr timer ",
               int{end.min_rnr_timer}, " retry ", int{end.rnr_retry}, ", queues ",
               end.capabilities.max_send_wr, "/", end.capabilities.max_receive_wr, ", ",
               end.work_requests, " requests, poison ", static_cast<int>(end.poison), " at ",
               end.poison_at, end.is_restless ? ", restless" : "", end.overruns ? ", overruns" : "",
               end.draws_from_shared_queue ? ", shared receives" : "", "\n");
    }
  }
  for (const DatagramScenario& end : scenario.datagrams) {
    text += Text("  UD on host ", end.host, ": groups ", end.groups, ", up to ", end.max_bytes,
                 " bytes, receives of ", end.receive_bytes, ", queues ",
                 end.capabilities.max_send_wr, "/", end.capabilities.max_receive_wr, ", ",
                 end.work_requests, " requests", end.is_restless ? ", restless" : "",
                 end.draws_from_shared_queue ? ", shared receives" : "", "\n");
  }
  return text;
}

}  // namespace uroce::transport::simulation
