// The actions of users: random, but each attempt follows its draft.
#include <algorithm>

#include "tests/transport/cm/simulation/world.h"
#include "transport/wire/byte_order.h"

namespace uroce::transport::cm {
namespace {

constexpr ServiceId kService = ServiceIdOf(PortSpace::kTcp, 7471);
constexpr uint32_t kQkey = 0x0123'0000;
constexpr auto kNo = RejectReason::kConsumerDefined;

// The private data of a message says which attempt it belongs to.
std::array<uint8_t, 4> Stamp(const Attempt& attempt) {
  std::array<uint8_t, 4> stamp;
  Store32(0xc0de'0000 + static_cast<uint32_t>(attempt.index), stamp.data());
  return stamp;
}
size_t IndexIn(std::span<const uint8_t> private_data) {
  return Load32(private_data.data()) - 0xc0de'0000;
}

}  // namespace

void World::Draft(Attempt& attempt) {
  using Reaction = Attempt::Reaction;
  using Confirmation = Attempt::Confirmation;
  using End = Attempt::End;
  attempt.active_host = static_cast<int>(random_.Below(hosts_.size()));
  attempt.passive_host = static_cast<int>(random_.Below(hosts_.size()));
  attempt.reaction = random_.Pick({Reaction::kAccept, Reaction::kAccept, Reaction::kAccept,
                                   Reaction::kReceiptThenAccept, Reaction::kReject,
                                   Reaction::kDestroy, Reaction::kAbandonOnce, Reaction::kNever});
  attempt.confirmation = random_.Pick({Confirmation::kReady, Confirmation::kReady,
                                       Confirmation::kReady, Confirmation::kReceiptThenReady,
                                       Confirmation::kReject, Confirmation::kDestroy});
  attempt.end = random_.Pick({End::kActive, End::kPassive, End::kBoth, End::kDestroyActive,
                              End::kDestroyPassive, End::kNone});
  attempt.is_cancelled = random_.Percent(10);
  attempt.has_early_data = random_.Percent(20);
  attempt.is_resolution = random_.Percent(15);
  attempt.loads_alternate = random_.Percent(15);
  // Attempts often start at the same moment, and in both directions.
  const Duration start = random_.Percent(40) ? Duration{0} : Patience() * 4;
  After(start, [this, &attempt] { Ask(attempt); });
  if (conditions_.has_restarts && random_.Percent(15)) {
    After(start + Patience() * 2,
          [this, &attempt] { Restart(HostOf(attempt, random_.Percent(50))); });
  }
}

Qpn World::NewQpn(Host& host) {
  if (host.free_qpns.empty()) return {host.next_qpn++};
  const Qpn qpn = host.free_qpns.back();
  host.free_qpns.pop_back();
  return qpn;
}

void World::Ask(Attempt& attempt) {
  Host& host = HostOf(attempt, true);
  const auto stamp = Stamp(attempt);
  attempt.active.id = *host.manager->Create();
  attempt.active.is_asked = true;
  host.owners[attempt.active.id.value] = {attempt.index, true};
  if (attempt.is_resolution) {
    (void)host.manager->Resolve(now_, attempt.active.id,
                                {.service_id = kService,
                                 .path = PathTo(host, HostOf(attempt, false)),
                                 .timeout = Milliseconds(200),
                                 .max_cm_retries = conditions_.max_cm_retries,
                                 .private_data = stamp});
    Pump(host);
    return;
  }
  attempt.active.qpn = NewQpn(host);
  attempt.active.psn = Psn(static_cast<uint32_t>(random_.Next()));
  const Status status =
      host.manager->Connect(now_, attempt.active.id,
                            {.service_id = kService,
                             .path = PathTo(host, HostOf(attempt, false)),
                             .qpn = attempt.active.qpn,
                             .starting_psn = attempt.active.psn,
                             .responder_resources = 4,
                             .initiator_depth = 2,
                             .remote_cm_response_timeout = conditions_.response_timeout,
                             .local_cm_response_timeout = conditions_.response_timeout,
                             .max_cm_retries = conditions_.max_cm_retries,
                             .private_data = stamp});
  Check(status == Status::kOk, &attempt, "REQ was refused locally");
  if (attempt.is_cancelled) {
    After(Patience(), [this, &attempt, epoch = host.epoch] { Destroy(attempt, true, epoch); });
  }
  Pump(host);
}

void World::OnEvent(Host& host, const Event& event) {
  if (event.kind == EventKind::kReqReceived) {
    OnRequest(host, event);
  } else if (event.kind == EventKind::kSidrReqReceived) {
    OnResolution(host, event);
  } else if (const auto owner = host.owners.find(event.id.value); owner != host.owners.end()) {
    OnAnyEvent(host, attempts_[static_cast<size_t>(owner->second.first)], owner->second.second,
               event);
  } else {
    Fail(nullptr, "an event for an id that its user has destroyed");
  }
}

void World::OnRequest(Host& host, const Event& event) {
  const Req& req = std::get<Req>(event.message);
  Check(event.listener_id == host.listener, nullptr, "REQ to another listener");
  const size_t index = IndexIn(req.private_data);
  if (index >= attempts_.size()) {
    Fail(nullptr, "REQ was invented");
    return;
  }
  Attempt& attempt = attempts_[index];
  Check(attempt.active.is_asked && req.local_id == attempt.active.id &&
            req.local_qpn == attempt.active.qpn && req.starting_psn == attempt.active.psn,
        &attempt, "REQ was changed on its way");
  // The same request may arrive again only after its first arrival led to nothing.
  Check(!attempt.passive.is_asked || attempt.passive.is_over || attempt.is_restarted, &attempt,
        "two requests out of one");
  attempt.passive = {.id = event.id, .is_asked = true};
  host.owners[event.id.value] = {attempt.index, false};
  // Each arrival of the request has a reaction of its own.
  After(Patience(), [this, &attempt, id = event.id, epoch = host.epoch] {
    if (attempt.passive.id == id) React(attempt, epoch);
  });
}

void World::React(Attempt& attempt, uint64_t epoch) {
  using Reaction = Attempt::Reaction;
  Host& host = HostOf(attempt, false);
  if (host.epoch != epoch || attempt.passive.is_over) return;
  const CommunicationId id = attempt.passive.id;
  switch (attempt.reaction) {
    case Reaction::kAccept:
      Accept(attempt, epoch);
      return;
    case Reaction::kReceiptThenAccept:
      (void)host.manager->AcknowledgeReceipt(id, conditions_.response_timeout, {},
                                             random_.Percent(50));
      After(Patience(), [this, &attempt, id, epoch] {
        if (attempt.passive.id == id) Accept(attempt, epoch);
      });
      break;
    case Reaction::kReject:
      attempt.passive.is_over = true;
      (void)host.manager->Reject(now_, id, {.reason = kNo});
      break;
    case Reaction::kDestroy:
      Destroy(attempt, false, epoch);
      return;
    case Reaction::kAbandonOnce:
      if (attempt.was_abandoned) {
        Accept(attempt, epoch);
        return;
      }
      attempt.was_abandoned = true;
      attempt.passive.is_over = true;
      attempt.passive.is_destroyed = true;
      host.owners.erase(id.value);
      host.manager->Abandon(now_, id);
      break;
    case Reaction::kNever:
      break;
  }
  Pump(host);
}

void World::Accept(Attempt& attempt, uint64_t epoch) {
  Host& host = HostOf(attempt, false);
  if (host.epoch != epoch || attempt.passive.is_over) return;
  attempt.passive.qpn = NewQpn(host);
  attempt.passive.psn = Psn(static_cast<uint32_t>(random_.Next()));
  attempt.passive.is_accepted = true;
  const auto stamp = Stamp(attempt);
  const Status status = host.manager->Accept(now_, attempt.passive.id,
                                             {.qpn = attempt.passive.qpn,
                                              .starting_psn = attempt.passive.psn,
                                              .responder_resources = 2,
                                              .initiator_depth = 4,
                                              .private_data = stamp});
  Check(status == Status::kOk, &attempt, "REP was refused locally");
  Pump(host);
}

void World::OnReply(Attempt& attempt, const Rep& rep) {
  Check(IndexIn(rep.private_data) == static_cast<size_t>(attempt.index), &attempt,
        "REP of another attempt");
  Check(!attempt.active.is_accepted, &attempt, "two replies");
  // The passive user may have been asked twice (it abandoned the first request): either is right.
  if (!attempt.is_restarted && rep.local_id == attempt.passive.id) {
    Check(rep.local_qpn == attempt.passive.qpn && rep.starting_psn == attempt.passive.psn, &attempt,
          "REP was changed on its way");
  }
  attempt.active.is_accepted = true;
  attempt.replier = rep.local_id;
  After(Patience(),
        [this, &attempt, epoch = HostOf(attempt, true).epoch] { Confirm(attempt, epoch); });
}

void World::Confirm(Attempt& attempt, uint64_t epoch) {
  using Confirmation = Attempt::Confirmation;
  Host& host = HostOf(attempt, true);
  if (host.epoch != epoch || attempt.active.is_over) return;
  switch (attempt.confirmation) {
    case Confirmation::kReady:
      SendReady(attempt, epoch);
      return;
    case Confirmation::kReceiptThenReady:
      (void)host.manager->AcknowledgeReceipt(attempt.active.id, conditions_.response_timeout, {});
      After(Patience(), [this, &attempt, epoch] { SendReady(attempt, epoch); });
      break;
    case Confirmation::kReject:
      attempt.active.is_over = true;
      (void)host.manager->Reject(now_, attempt.active.id, {.reason = kNo});
      break;
    case Confirmation::kDestroy:
      Destroy(attempt, true, epoch);
      return;
  }
  Pump(host);
}

void World::SendReady(Attempt& attempt, uint64_t epoch) {
  Host& host = HostOf(attempt, true);
  if (host.epoch != epoch || attempt.active.is_over) return;
  JudgeAttributes(attempt);
  attempt.active.is_ready = true;
  Check(host.manager->ConfirmReady(attempt.active.id, {}) == Status::kOk, &attempt,
        "RTU was refused locally");
  if (attempt.has_early_data) {
    Host& other = HostOf(attempt, false);
    After(Patience(), [this, &attempt, &other, passive_epoch = other.epoch] {
      if (other.epoch != passive_epoch || attempt.passive.is_over) return;
      (void)other.manager->CommunicationEstablished(attempt.passive.id);
      Pump(other);
    });
  }
  if (attempt.loads_alternate) LoadAlternate(attempt);
  PlanEnd(attempt);
  Pump(host);
}

void World::LoadAlternate(Attempt& attempt) {
  Host& host = HostOf(attempt, true);
  (void)host.manager->LoadAlternatePath(now_, attempt.active.id,
                                        PathTo(host, HostOf(attempt, false)), {});
}

void World::PlanEnd(Attempt& attempt) {
  using End = Attempt::End;
  // On a calm wire this is after the arrival of the RTU.
  const Duration delay = conditions_.longest_delay * 2 + Patience() * 3;
  const uint64_t active_epoch = HostOf(attempt, true).epoch;
  const uint64_t passive_epoch = HostOf(attempt, false).epoch;
  const End end = attempt.end;
  if (end == End::kActive || end == End::kBoth) {
    After(delay, [=, this, &attempt] { Disconnect(attempt, true, active_epoch); });
  }
  if (end == End::kPassive || end == End::kBoth) {
    After(delay, [=, this, &attempt] { Disconnect(attempt, false, passive_epoch); });
  }
  if (end == End::kDestroyActive || end == End::kDestroyPassive) {
    const bool is_active = end == End::kDestroyActive;
    After(delay, [=, this, &attempt] {
      Destroy(attempt, is_active, is_active ? active_epoch : passive_epoch);
    });
  }
}

void World::OnReady(Attempt& attempt) {
  ++established_;
  attempt.passive.is_ready = true;
  ++attempt.passive.ready_count;
  Check(attempt.passive.ready_count == 1, &attempt, "established twice");
  Check(attempt.active.is_ready || attempt.is_restarted, &attempt, "RTU was invented");
}

void World::Disconnect(Attempt& attempt, bool is_active, uint64_t epoch) {
  Host& host = HostOf(attempt, is_active);
  Attempt::View& view = ViewOf(attempt, is_active);
  if (host.epoch != epoch || view.is_over || !view.is_ready) return;
  // The manager disconnects a stale connection without its user.
  if (host.manager->Disconnect(now_, view.id, {}) == Status::kOk) view.is_over = true;
  Pump(host);
}

void World::Destroy(Attempt& attempt, bool is_active, uint64_t epoch) {
  Host& host = HostOf(attempt, is_active);
  Attempt::View& view = ViewOf(attempt, is_active);
  if (host.epoch != epoch || view.is_destroyed || !view.is_asked) return;
  view.is_over = true;
  view.is_destroyed = true;
  host.owners.erase(view.id.value);
  host.manager->Destroy(now_, view.id);
  Pump(host);
}

void World::OnAnyEvent(Host& host, Attempt& attempt, bool is_active, const Event& event) {
  Attempt::View& view = ViewOf(attempt, is_active);
  if (event.id != view.id) return;  // from an earlier arrival of the same request
  switch (event.kind) {
    case EventKind::kRepReceived:
      OnReply(attempt, std::get<Rep>(event.message));
      return;
    case EventKind::kRtuReceived:
    case EventKind::kUserEstablished:
      OnReady(attempt);
      return;
    case EventKind::kDreqReceived:
      view.is_over = true;
      After(Patience(), [this, &host, id = event.id, epoch = host.epoch] {
        if (host.epoch == epoch) (void)host.manager->ConfirmDisconnect(now_, id, {});
        Pump(host);
      });
      return;
    case EventKind::kLapReceived:
      (void)host.manager->AnswerAlternatePath(event.id, {});
      return;
    case EventKind::kTimewaitExit:
      if (view.qpn.value != 0) host.free_qpns.push_back(view.qpn);
      return;
    case EventKind::kRejReceived:
      view.reason = std::get<Rej>(event.message).reason;
      stale_ += view.reason == RejectReason::kStaleConnection ? 1 : 0;
      view.is_over = true;
      return;
    case EventKind::kSidrRepReceived: {
      const SidrRep& reply = std::get<SidrRep>(event.message);
      Check(reply.qkey == kQkey + static_cast<uint32_t>(attempt.index), &attempt,
            "SIDR_REP of another attempt");
      attempt.is_resolved = true;
      view.is_over = true;
      return;
    }
    case EventKind::kMraReceived:
    case EventKind::kAprReceived:
    case EventKind::kLapError:
      return;
    default:  // an error, or a DREP
      view.is_over = true;
      return;
  }
}

void World::OnResolution(Host& host, const Event& event) {
  const size_t index = IndexIn(std::get<SidrReq>(event.message).private_data);
  if (index >= attempts_.size() || !attempts_[index].is_resolution) {
    Fail(nullptr, "SIDR_REQ was invented");
    return;
  }
  ++attempts_[index].resolutions_answered;
  (void)host.manager->AnswerResolution(event.id,
                                       {.qpn = {7}, .qkey = kQkey + static_cast<uint32_t>(index)});
  host.manager->Destroy(now_, event.id);
}

}  // namespace uroce::transport::cm
