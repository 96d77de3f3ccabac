// The checks of a run.
#include "tests/transport/cm/simulation/world.h"

namespace uroce::transport::cm {

std::string World::Run() {
  RunUntilQuiet();
  if (!failure_.empty()) return failure_;
  for (Attempt& attempt : attempts_) {
    if (attempt.is_restarted) continue;
    JudgeOutcome(attempt);
    if (conditions_.is_calm) JudgeCalmOutcome(attempt);
  }
  ShutDown();
  return failure_;
}

// Both ends describe the same connection.
void World::JudgeAttributes(Attempt& attempt) {
  Host& passive = HostOf(attempt, false);
  // The passive end may be gone, or a late copy of the request may have made another one.
  if (attempt.is_restarted || attempt.passive.is_over) return;
  if (attempt.replier != attempt.passive.id) return;
  QpAttributes ours;
  QpAttributes theirs;
  uint32_t mask = 0;
  ConnectionManager& active = *HostOf(attempt, true).manager;
  const CommunicationId id = attempt.active.id;
  const CommunicationId other = attempt.passive.id;
  if (active.Attributes(id, QpState::kReadyToReceive, ours, mask) != Status::kOk ||
      active.Attributes(id, QpState::kReadyToSend, ours, mask) != Status::kOk ||
      passive.manager->Attributes(other, QpState::kReadyToReceive, theirs, mask) != Status::kOk ||
      passive.manager->Attributes(other, QpState::kReadyToSend, theirs, mask) != Status::kOk) {
    Fail(&attempt, "no attributes for a connection");
    return;
  }
  Check(ours.destination_qpn == attempt.passive.qpn && theirs.destination_qpn == attempt.active.qpn,
        &attempt, "queue pairs that do not meet");
  Check(ours.sq_psn == theirs.rq_psn && theirs.sq_psn == ours.rq_psn, &attempt,
        "PSNs that do not meet");
  Check(ours.max_read_atomic <= theirs.max_dest_read_atomic &&
            theirs.max_read_atomic <= ours.max_dest_read_atomic,
        &attempt, "more READs than the peer takes");
}

// Called when nothing moves any more; neither host was restarted.
void World::JudgeOutcome(Attempt& attempt) {
  const Attempt::View& active = attempt.active;
  const Attempt::View& passive = attempt.passive;
  Check(active.is_asked, &attempt, "never asked");
  if (attempt.is_resolution) {
    Check(active.is_over, &attempt, "a resolution without an end");
    return;
  }
  Check(active.is_ready || active.is_over, &attempt, "the active side hangs");
  Check(!passive.is_accepted || passive.is_ready || passive.is_over, &attempt,
        "the passive side hangs");
  // If one end is connected, the other end is too, or it has ended for a reason that its user
  // knows.
  Check(!active.is_ready || active.is_over || passive.is_ready || passive.is_over, &attempt,
        "only the active side is connected");
  Check(!passive.is_ready || passive.is_over || active.is_ready, &attempt,
        "only the passive side is connected");
}

// On a perfect wire, with users that answer in time, every attempt goes as drafted.
void World::JudgeCalmOutcome(Attempt& attempt) {
  using Reaction = Attempt::Reaction;
  using Confirmation = Attempt::Confirmation;
  const Attempt::View& active = attempt.active;
  const Attempt::View& passive = attempt.passive;
  if (attempt.is_resolution) {
    Check(attempt.is_resolved && attempt.resolutions_answered > 0, &attempt, "not resolved");
    return;
  }
  if (attempt.is_cancelled) return;
  if (attempt.reaction == Reaction::kReject || attempt.reaction == Reaction::kDestroy) {
    Check(active.reason == RejectReason::kConsumerDefined, &attempt, "the wrong refusal");
    return;
  }
  if (attempt.reaction == Reaction::kNever) {
    Check(active.is_over && !active.is_accepted, &attempt, "an answer that no user gave");
    return;
  }
  Check(active.is_accepted, &attempt, "not accepted");
  if (attempt.confirmation == Confirmation::kReject ||
      attempt.confirmation == Confirmation::kDestroy) {
    Check(passive.reason == RejectReason::kConsumerDefined, &attempt, "the wrong refusal");
    return;
  }
  Check(active.is_ready && passive.is_ready, &attempt, "not established");
  const bool has_end = attempt.end != Attempt::End::kNone;
  Check(active.is_over == has_end && passive.is_over == has_end, &attempt,
        "one side does not know of the end");
}

// All users leave. All that is left must end by itself in bounded time, and leave nothing behind.
void World::ShutDown() {
  for (Host& host : hosts_) {
    const auto owners = host.owners;
    host.owners.clear();
    bool is_first = true;
    for (const auto& [id, owner] : owners) {
      if (sabotage_ == Sabotage::kForgetsDestroy && is_first) {
        is_first = false;
        continue;
      }
      host.manager->Destroy(now_, {id});
    }
    host.manager->Destroy(now_, host.listener);
    Pump(host);
  }
  RunUntilQuiet();
  for (const Host& host : hosts_) {
    Check(host.manager->id_count() == 0, nullptr, "an id is left");
    Check(host.manager->remote_count() == 0, nullptr, "a peer is remembered for ever");
    Check(host.manager->half_open_count() == 0, nullptr, "a half-open connection is left");
    Check(host.manager->NextDeadline() == kNever, nullptr, "a timer is left");
  }
}

}  // namespace uroce::transport::cm
