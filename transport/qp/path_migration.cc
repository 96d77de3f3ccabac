#include "transport/qp/path_migration.h"

#include "transport/qp/pacing.h"

namespace uroce::transport {
namespace {

bool HasSource(const QpContext& qp, const Gid& source) {
  return qp.environment.config.FindGid(source) >= 0;
}

Path PathTo(const QpContext& qp, const Gid& source, const AddressVector& address) {
  return Path::ToPeer(qp.environment.config, HasSource(qp, source) ? source : Gid{}, address,
                      qp.qpn, qp.attributes.destination_qpn);
}

bool HasSourceChanged(const QpContext& qp, const Path& path, const Gid& source) {
  return path.is_connection() && HasSource(qp, source) == path.source().IsZero();
}

bool Matches(const Path& path, const Packet& packet) {
  return path.is_connection() && path.Matches(packet.flow, packet.from);
}

bool IsInPartition(const QpContext& qp, uint16_t pkey_index, const Packet& packet) {
  return PkeysMatch(qp.environment.config.pkeys[pkey_index], packet.pkey);
}

void PeerHasFollowed(QpContext& qp) {
  if (!qp.awaits_peer_on_path) return;
  qp.awaits_peer_on_path = false;
  UpdatePrediction(qp);
}

}  // namespace

void UpdatePrediction(QpContext& qp) {
  const EndpointConfig& config = qp.environment.config;
  const bool is_connection = qp.path.is_connection();
  const bool is_in_default_partition = qp.pkey() == kDefaultPkey;
  const bool is_migrated = qp.attributes.migration_state == MigrationState::kMigrated;
  const bool is_settled = is_connection && is_migrated && !qp.awaits_peer_on_path;
  const bool is_paced = PacedKbps(qp.attributes.address, qp.attributes.rate_limit) != 0;
  const QpState state = qp.attributes.state;
  const bool is_ready = state == QpState::kReadyToSend ||
                        (state == QpState::kReadyToReceive && qp.communication_established);
  qp.predicts_requests = config.uses_prediction && qp.is_rc() && state == QpState::kReadyToSend &&
                         !is_paced && !qp.peer_gone;
  qp.predicts_arrivals = config.uses_prediction && qp.is_rc() && is_ready;
  qp.predicts_network_headers = config.uses_prediction && is_settled && is_in_default_partition;
  qp.takes_headerless =
      is_connection && !qp.awaits_peer_on_path && PkeysMatch(qp.pkey(), kDefaultPkey);
  qp.peer_is_linked = qp.is_reliable() && IsLink(qp.path.route());
  if (!is_connection) return;
  // An XRC target takes headerless frames of its peer only, so an executor sends it whole ones.
  const bool is_executor = qp.init.reported_qpn.value != 0;
  qp.path.SetConnection(
      {.service = qp.service(),
       .destination_qpn = qp.attributes.destination_qpn,
       .pkey = qp.pkey(),
       .migration_request = is_migrated,
       .may_be_headerless = qp.predicts_network_headers && !is_paced && !is_executor});
}

void SetPaths(QpContext& qp) {
  qp.path = PathTo(qp, qp.source_gid, qp.attributes.address);
  if (!qp.alternate_source_gid.IsZero()) {
    qp.alternate_path = PathTo(qp, qp.alternate_source_gid, qp.attributes.alternate_address);
  }
  UpdatePrediction(qp);
}

bool HaveSourcesChanged(const QpContext& qp) {
  return HasSourceChanged(qp, qp.path, qp.source_gid) ||
         HasSourceChanged(qp, qp.alternate_path, qp.alternate_source_gid);
}

void ForgetPaths(QpContext& qp) {
  qp.path = qp.alternate_path = Path();
  qp.source_gid = qp.alternate_source_gid = Gid{};
  qp.awaits_peer_on_path = qp.peer_gone = false;
  UpdatePrediction(qp);
}

void Rearm(QpContext& qp) {
  qp.attributes.migration_state = MigrationState::kRearm;
  UpdatePrediction(qp);
}

void Migrate(QpContext& qp) {
  QpAttributes& own = qp.attributes;
  own.migration_state = MigrationState::kMigrated;
  own.address = own.alternate_address;
  own.port_num = own.alternate_port_num;
  own.pkey_index = own.alternate_pkey_index;
  own.timeout = own.alternate_timeout;
  qp.source_gid = qp.alternate_source_gid;
  qp.awaits_peer_on_path = true;
  SetPaths(qp);
  qp.environment.events.Raise(qp.queue_pair, EventType::kPathMigrated);  // IBA 11.6.3.1 PATH_MIG
}

// In REARM, too, the peer may have migrated: a packet of ours armed it, and its packets that would
// have armed us were lost with the path.
PathCheck CheckPath(QpContext& qp, const Packet& packet) {
  const MigrationState state = qp.attributes.migration_state;
  const bool peer_has_migrated = packet.migration_request;
  if (state != MigrationState::kMigrated && peer_has_migrated &&
      Matches(qp.alternate_path, packet)) {
    if (!IsInPartition(qp, qp.attributes.alternate_pkey_index, packet)) {
      return PathCheck::kOtherPartition;
    }
    Migrate(qp);
    return PathCheck::kMigrated;
  }
  if (!Matches(qp.path, packet)) {
    if (state == MigrationState::kArmed && peer_has_migrated) {  // IBA 11.6.3.2 PATH_MIG_ERR
      qp.environment.events.Raise(qp.queue_pair, EventType::kPathMigrationError);
    }
    return PathCheck::kForeign;
  }
  if (!IsInPartition(qp, qp.attributes.pkey_index, packet)) return PathCheck::kOtherPartition;
  if (state == MigrationState::kRearm && !peer_has_migrated) {  // IBA 17.2.8
    qp.attributes.migration_state = MigrationState::kArmed;
  } else if (state == MigrationState::kMigrated && peer_has_migrated) {
    PeerHasFollowed(qp);
  }
  return PathCheck::kPrimary;
}

PathCheck CheckHeaderless(QpContext& qp, Route from) {
  if (!qp.path.is_connection() || from != qp.path.route()) return PathCheck::kForeign;
  if (!PkeysMatch(qp.pkey(), kDefaultPkey)) return PathCheck::kOtherPartition;
  PeerHasFollowed(qp);
  return PathCheck::kPrimary;
}

}  // namespace uroce::transport
