// The calls of the application: rdma_connect, rdma_accept and what follows, as in cma.c of Linux.
#include <algorithm>
#include <cerrno>

#include "transport/cm/ip_header.h"
#include "verbs_provider/rdma_cm/agent.h"

namespace uroce::verbs::rdma_cm {
namespace {

using transport::QpAttributeMask;
using transport::QpState;
using transport::Status;
using transport::cm::ConnectionManager;
using transport::cm::RejectReason;
using transport::cm::State;
using transport::cm::TransportService;

constexpr uint32_t kUdpQkey = 0x0123'4567;  // RDMA_UDP_QKEY
constexpr uint8_t kMaxRetries = 7;          // 3 bits
constexpr uint8_t kMaxExponent = 31;        // 5 bits

int ErrnoOf(Status status) { return static_cast<int>(status); }

TransportService ServiceFor(const Id& id) {
  if (id.qp_type == kQpTypeRc) return TransportService::kReliableConnection;
  if (id.qp_type == kQpTypeUc) return TransportService::kUnreliableConnection;
  return TransportService::kXrc;
}

transport::cm::ServiceId ServiceOfPeer(const Id& id) {
  if (!id.peer.IsIp()) return {id.peer.service_id};
  return transport::cm::ServiceIdOf(id.space, id.peer.port);
}

}  // namespace

// cma_set_qkey.
int Agent::ChooseQkey(Id& id, uint32_t qkey) {
  if (id.qkey != 0) return qkey != 0 && qkey != id.qkey ? EINVAL : 0;
  const bool has_default =
      id.space == transport::cm::PortSpace::kUdp || id.space == transport::cm::PortSpace::kIb;
  id.qkey = qkey != 0 || !has_default ? qkey : kUdpQkey;
  return 0;
}

std::vector<uint8_t> Agent::WithIpHeader(const Id& id,
                                         std::span<const uint8_t> private_data) const {
  std::vector<uint8_t> bytes;
  if (id.address().IsIp()) {
    bytes.resize(transport::cm::IpHeader::kBytes);
    transport::cm::EmitIpHeader({.is_ipv6 = id.address().family == AF_INET6,
                                 .source_port = id.address().port,
                                 .source = id.address().gid,
                                 .destination = id.peer.gid},
                                bytes.data());
  }
  bytes.insert(bytes.end(), private_data.begin(), private_data.end());
  return bytes;
}

int Agent::Connect(Id& id, const ConnectionParameters& parameters) {
  if (id.state != IdState::kRouteResolved) return EINVAL;
  const auto created = With([](ConnectionManager& cm, transport::Time) { return cm.Create(); });
  if (!created) return ENOMEM;
  id.connection = created;
  connections_[created->value] = &id;
  id.state = IdState::kConnecting;
  id.qpn = parameters.qpn;
  const auto private_data = WithIpHeader(id, parameters.private_data);
  const int error = id.is_datagram() ? ResolveQueuePair(id, private_data)
                                     : ConnectReliably(id, parameters, private_data);
  if (error == 0) return 0;
  EndConnection(id);
  id.state = IdState::kRouteResolved;
  return error;
}

int Agent::ConnectReliably(Id& id, const ConnectionParameters& parameters,
                           std::span<const uint8_t> private_data) {
  const transport::cm::ConnectParameters request{
      .service_id = ServiceOfPeer(id),
      .path = *id.path,
      .service = ServiceFor(id),
      .qpn = id.qpn,
      .starting_psn = id.starting_psn,
      .responder_resources = parameters.responder_resources,
      .initiator_depth = parameters.initiator_depth,
      .retry_count = std::min(parameters.retry_count, kMaxRetries),
      .rnr_retry_count = std::min(parameters.rnr_retry_count, kMaxRetries),
      .flow_control = parameters.flow_control,
      .srq = parameters.srq,
      .private_data = private_data};
  return With([&](ConnectionManager& cm, transport::Time now) {
    return ErrnoOf(cm.Connect(now, *id.connection, request));
  });
}

int Agent::ResolveQueuePair(Id& id, std::span<const uint8_t> private_data) {
  const transport::cm::ResolveParameters request{
      .service_id = ServiceOfPeer(id), .path = *id.path, .private_data = private_data};
  return With([&](ConnectionManager& cm, transport::Time now) {
    return ErrnoOf(cm.Resolve(now, *id.connection, request));
  });
}

int Agent::AcceptReliably(Id& id, const std::optional<ConnectionParameters>& parameters) {
  return With([&](ConnectionManager& cm, transport::Time now) {
    if (!parameters) return ErrnoOf(cm.ConfirmReady(*id.connection, {}));
    return ErrnoOf(cm.Accept(now, *id.connection,
                             {.qpn = id.qpn,
                              .starting_psn = id.starting_psn,
                              .responder_resources = parameters->responder_resources,
                              .initiator_depth = parameters->initiator_depth,
                              .rnr_retry_count = std::min(parameters->rnr_retry_count, kMaxRetries),
                              .flow_control = parameters->flow_control,
                              .srq = parameters->srq,
                              .private_data = parameters->private_data}));
  });
}

int Agent::AnswerResolution(Id& id, const std::optional<ConnectionParameters>& parameters) {
  if (const int error = ChooseQkey(id, parameters ? parameters->qkey : 0)) return error;
  const auto private_data = parameters ? parameters->private_data : std::span<const uint8_t>{};
  return With([&](ConnectionManager& cm, transport::Time) {
    return ErrnoOf(cm.AnswerResolution(
        *id.connection, {.qpn = id.qpn, .qkey = id.qkey, .private_data = private_data}));
  });
}

int Agent::Accept(Id& id, uint64_t uid, const std::optional<ConnectionParameters>& parameters) {
  if (id.state != IdState::kConnecting || !id.connection) return EINVAL;
  if (parameters) id.qpn = parameters->qpn;
  const int error =
      id.is_datagram() ? AnswerResolution(id, parameters) : AcceptReliably(id, parameters);
  if (error != 0) {
    (void)Reject(id, 0, {});
    return error;
  }
  if (parameters) id.uid = uid;
  return 0;
}

int Agent::Reject(Id& id, uint8_t reason, std::span<const uint8_t> private_data) {
  const auto wanted = static_cast<RejectReason>(reason);
  const bool is_known = reason == 0 || wanted == RejectReason::kConsumerDefined ||
                        wanted == RejectReason::kVendorOptionNotSupported;
  if (!is_known || !id.connection) return EINVAL;
  return With([&](ConnectionManager& cm, transport::Time now) {
    if (id.is_datagram()) {
      return ErrnoOf(cm.AnswerResolution(
          *id.connection,
          {.status = transport::cm::SidrStatus::kRejected, .private_data = private_data}));
    }
    return ErrnoOf(cm.Reject(now, *id.connection,
                             {.reason = reason == 0 ? RejectReason::kConsumerDefined : wanted,
                              .private_data = private_data}));
  });
}

// Sends a DREQ, or a DREP if the peer's DREQ came first.
int Agent::Disconnect(Id& id) {
  if (!id.connection) return EINVAL;
  return With([&](ConnectionManager& cm, transport::Time now) {
    if (cm.Disconnect(now, *id.connection, {}) != Status::kOk) {
      (void)cm.ConfirmDisconnect(now, *id.connection, {});
    }
    return 0;
  });
}

int Agent::CommunicationEstablished(Id& id) {
  if (!id.connection) return EINVAL;
  return With([&](ConnectionManager& cm, transport::Time) {
    if (cm.StateOf(*id.connection) == State::kEstablished) return EISCONN;  // cm_establish
    return ErrnoOf(cm.CommunicationEstablished(*id.connection));
  });
}

int Agent::PathMigrated(Id& id) {
  if (!id.connection) return EINVAL;
  return With([&](ConnectionManager& cm, transport::Time) {
    return cm.StateOf(*id.connection) == State::kEstablished ? 0 : EINVAL;  // cm_migrate
  });
}

int Agent::InitQpAttributes(Id& id, QpState state, transport::QpAttributes& attributes,
                            uint32_t& mask) {
  if (!id.has_device) return EINVAL;
  attributes.state = state;
  if (!id.connection || id.is_datagram()) {
    mask = QpAttributeMask::kState | QpAttributeMask::kPkeyIndex | QpAttributeMask::kPort;
    attributes.port_num = 1;
    if (!id.is_datagram()) {
      mask |= QpAttributeMask::kAccessFlags;
      return 0;
    }
    mask |= QpAttributeMask::kQkey;
    const int error = ChooseQkey(id, 0);
    attributes.qkey = id.qkey;
    return error;
  }
  const int error = With([&](ConnectionManager& cm, transport::Time) {
    return ErrnoOf(cm.Attributes(*id.connection, state, attributes, mask));
  });
  if (error != 0) return error;
  // The connection manager learns the first PSN of an accepting id only with its REP.
  if (state == QpState::kReadyToReceive) attributes.rq_psn = id.starting_psn;
  if ((mask & QpAttributeMask::kTimeout) != 0 && id.ack_timeout) {
    attributes.timeout = std::min(*id.ack_timeout, kMaxExponent);
  }
  return 0;
}

}  // namespace uroce::verbs::rdma_cm
