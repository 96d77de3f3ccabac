#include "tests/transport/cm/simulation/world.h"

#include "transport/cm/timeouts.h"

namespace uroce::transport::cm {
namespace {

constexpr ServiceId kService = ServiceIdOf(PortSpace::kTcp, 7471);
// Longer than any run: a run that takes longer never ends.
constexpr Duration kLongestRun{24 * 3'600'000'000'000};
constexpr uint64_t kMostActions = 1'000'000;

Conditions DrawConditions(Random& random) {
  Conditions conditions{.is_calm = random.Percent(25)};
  conditions.response_timeout = static_cast<uint8_t>(random.Between(10, 20));
  conditions.packet_life_time = static_cast<uint8_t>(random.Between(2, 16));
  if (conditions.is_calm) {
    conditions.max_cm_retries = 15;
    // The longest lifetime of a packet that the path promises.
    conditions.packet_life_time = static_cast<uint8_t>(conditions.response_timeout - 3);
    conditions.longest_delay = DurationOf(conditions.packet_life_time);
    return conditions;
  }
  conditions.max_cm_retries = static_cast<uint8_t>(random.Between(0, 15));
  conditions.loss_ppm = random.Pick({0u, 10'000u, 100'000u, 300'000u, 600'000u});
  conditions.duplicate_ppm = random.Pick({0u, 10'000u, 300'000u});
  // Often longer than the interval between retries.
  conditions.longest_delay = {DurationOf(conditions.response_timeout).ns / 16 *
                              random.Pick<int64_t>({1, 8, 40})};
  conditions.has_restarts = random.Percent(25);
  return conditions;
}

}  // namespace

World::World(uint64_t seed) : random_(seed), conditions_(DrawConditions(random_)) {
  hosts_.resize(random_.Between(1, 3));
  for (size_t i = 0; i < hosts_.size(); ++i) {
    hosts_[i].index = static_cast<int>(i);
    hosts_[i].gid = Gid::FromIpv4({10, 0, 0, static_cast<uint8_t>(i + 1)});
    Restart(hosts_[i]);
  }
  attempts_.resize(random_.Between(1, 16));
  for (size_t i = 0; i < attempts_.size(); ++i) {
    attempts_[i].index = static_cast<int>(i);
    Draft(attempts_[i]);
  }
}

void World::At(Time time, Action action) {
  agenda_.emplace(std::pair(time, next_order_++), std::move(action));
}

void World::RunUntilQuiet() {
  const Time latest = now_ + kLongestRun;
  for (uint64_t count = 0; !agenda_.empty() && failure_.empty(); ++count) {
    const auto next = agenda_.begin();
    now_ = next->first.first;
    const Action action = std::move(next->second);
    agenda_.erase(next);
    action();
    Check(count < kMostActions && now_ < latest, nullptr, "the run does not end");
  }
}

// Called after every use of a host's manager.
void World::Pump(Host& host) {
  while (host.manager->HasTransmit() || host.manager->HasEvent()) {
    while (auto mad = host.manager->PollTransmit()) Carry(*mad, host);
    if (auto event = host.manager->TakeEvent()) OnEvent(host, *event);
  }
  PlanDeadline(host);
}

void World::PlanDeadline(Host& host) {
  const Time deadline = host.manager->NextDeadline();
  if (deadline >= host.planned_deadline) return;
  host.planned_deadline = deadline;
  At(deadline, [this, &host, deadline] {
    if (host.planned_deadline != deadline) return;
    host.planned_deadline = kNever;
    host.manager->OnDeadline(now_);
    Check(host.manager->NextDeadline() > now_, nullptr, "a deadline in the past");
    Pump(host);
  });
}

void World::Carry(const OutgoingMad& mad, Host& from) {
  Host* to = nullptr;
  for (Host& host : hosts_) {
    if (host.gid == mad.destination.path.destination_gid) to = &host;
  }
  if (to == nullptr) {
    Fail(nullptr, "a message to a host that there is not");
    return;
  }
  if (random_.Chance(conditions_.loss_ppm)) return;
  MadBytes bytes = mad.mad;
  ParsedMad parsed = ParseMessage(bytes);
  Check(parsed.malformed == Malformed::kNone, nullptr, "a malformed message was sent");
  if (std::holds_alternative<Rtu>(parsed.message) && sabotage_ == Sabotage::kLosesRtu) return;
  if (auto* rep = std::get_if<Rep>(&parsed.message);
      rep != nullptr && sabotage_ == Sabotage::kChangesQpn) {
    rep->local_qpn.value ^= 1;
    bytes = EmitMessage(parsed.header.transaction_id, parsed.message);
  }
  const MadAddress source{.path = PathTo(*to, from).address};
  const int copies = random_.Chance(conditions_.duplicate_ppm) ? 2 : 1;
  for (int i = 0; i < copies; ++i) {
    const Duration delay{static_cast<int64_t>(
        random_.Between(1'000, static_cast<uint64_t>(conditions_.longest_delay.ns) + 1'000))};
    After(delay, [this, to, bytes, source] {
      to->manager->OnMad(now_, bytes, source);
      Pump(*to);
    });
  }
}

// A new process on the same host: it knows no connection of the old process, and uses the same
// queue pair numbers.
void World::Restart(Host& host) {
  for (auto& [id, owner] : host.owners)
    attempts_[static_cast<size_t>(owner.first)].is_restarted = true;
  host.owners.clear();
  host.free_qpns.clear();
  host.next_qpn = 0x100;
  ++host.epoch;
  host.planned_deadline = kNever;
  host.manager = std::make_unique<ConnectionManager>(
      Config{.ca_guid = 0x100u + static_cast<uint64_t>(host.index),
             .ack_delay = static_cast<uint8_t>(random_.Between(0, 18)),
             .seed = {random_.Next(), random_.Next()}});
  host.listener = *host.manager->Create();
  (void)host.manager->Listen(host.listener, kService);
}

Path World::PathTo(const Host& from, const Host& to) const {
  Path path{
      .source_gid = from.gid, .mtu = Mtu::k1024, .packet_life_time = conditions_.packet_life_time};
  path.address.destination_gid = to.gid;
  path.address.destination_mac = {2, 0, 0, 0, 0, static_cast<uint8_t>(to.index)};
  return path;
}

Duration World::Patience() {
  const int64_t timeout = DurationOf(conditions_.response_timeout).ns;
  const int64_t longest = conditions_.is_calm ? timeout / 4 : timeout * 3;
  return {static_cast<int64_t>(random_.Below(static_cast<uint64_t>(longest)))};
}

void World::Fail(const Attempt* attempt, const std::string& what) {
  if (!failure_.empty()) return;
  failure_ = what;
  const auto describe = [](const Attempt::View& view) {
    return std::string(view.is_asked ? " asked" : "") + (view.is_accepted ? " accepted" : "") +
           (view.is_ready ? " ready" : "") + (view.is_over ? " over" : "") +
           (view.reason ? " rejected: " + std::string(Name(*view.reason)) : "");
  };
  if (attempt != nullptr) {
    failure_ += ", attempt " + std::to_string(attempt->index) + " (reaction " +
                std::to_string(static_cast<int>(attempt->reaction)) + ", confirmation " +
                std::to_string(static_cast<int>(attempt->confirmation)) + ", end " +
                std::to_string(static_cast<int>(attempt->end)) + ": active" +
                describe(attempt->active) + "; passive" + describe(attempt->passive) + ")";
  }
  failure_ += ", at " + std::to_string(now_.ns) + " ns";
}

}  // namespace uroce::transport::cm
