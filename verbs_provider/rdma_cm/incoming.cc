// Handles messages of peers: cma_ib_req_handler, cma_ib_handler, cma_sidr_rep_handler of Linux.
#include <algorithm>
#include <cerrno>
#include <type_traits>
#include <utility>
#include <variant>

#include "verbs_provider/rdma_cm/agent.h"
#include "verbs_provider/rdma_cm/uverbs_structs.h"

namespace uroce::verbs::rdma_cm {
namespace {

using transport::cm::CommunicationId;
using transport::cm::ConnectionManager;
using transport::cm::Event;
using transport::cm::EventKind;
using transport::cm::IpHeader;
using transport::cm::Rej;
using transport::cm::RejectReason;
using transport::cm::Rep;
using transport::cm::Req;
using transport::cm::SidrRep;
using transport::cm::SidrReq;
using transport::cm::SidrStatus;

// CMA_CM_MRA_SETTING: the application may think for 69 seconds.
constexpr uint8_t kServiceTimeout = 24;

template <class Parameters>
void CopyPrivateData(std::span<const uint8_t> bytes, Parameters& parameters) {
  std::copy(bytes.begin(), bytes.end(), parameters.private_data);
  parameters.private_data_len = static_cast<uint8_t>(bytes.size());
}

// The resources that one end offers as responder are those that the other may use as requester.
template <class Message>
void Fill(const Message& message, size_t skipped, rdma_ucm_conn_param& out) {
  CopyPrivateData(std::span(message.private_data).subspan(skipped), out);
  out.qp_num = message.local_qpn.value;
  out.srq = message.srq ? 1 : 0;
  out.responder_resources = message.initiator_depth;
  out.initiator_depth = message.responder_resources;
  out.flow_control = message.end_to_end_flow_control ? 1 : 0;
  if constexpr (std::is_same_v<Message, Req>) out.retry_count = message.retry_count;
  out.rnr_retry_count = message.rnr_retry_count;
}

rdma_ucm_event_resp EventOf(UserEvent kind, int status) {
  rdma_ucm_event_resp event = {};
  event.event = static_cast<uint32_t>(kind);
  event.status = static_cast<uint32_t>(status);
  return event;
}

// cma_match_private_data: whether `id` is bound to the address that the request names.
bool Accepts(const Id& id, const std::optional<IpHeader>& header) {
  const SocketAddress& own = id.address();
  if (!own.IsIp()) return true;
  if (!header) return false;
  if (own.IsAny()) {
    const bool same_family = header->is_ipv6 == (own.family == AF_INET6);
    return same_family || (own.family == AF_INET6 && !id.binding.af_only);
  }
  return own.gid == header->destination;
}

SocketAddress IpAddress(bool is_ipv6, const transport::Gid& gid, uint16_t port) {
  SocketAddress address = AnyAddress(is_ipv6 ? AF_INET6 : AF_INET);
  address.gid = gid;
  address.port = port;
  return address;
}

SocketAddress IbAddress(const transport::Gid& gid, uint64_t service_id) {
  SocketAddress address = AnyAddress(kFamilyIb);
  address.gid = gid;
  address.pkey = 0xffff;
  address.service_id = service_id;
  address.service_mask = UINT64_MAX;
  address.port = static_cast<uint16_t>(service_id);
  return address;
}

std::span<const uint8_t> PrivateDataOf(const Event& event) {
  if (const auto* req = std::get_if<Req>(&event.message)) return req->private_data;
  return std::get<SidrReq>(event.message).private_data;
}

}  // namespace

void Agent::TakeConnectionEvents() {
  if (device_ != nullptr && device_->has_failed()) RemoveDevice();
  if (device_ != nullptr) TellAddressChanges();
  while (device_ != nullptr) {
    std::vector<Event> events;
    With([&](ConnectionManager& cm, transport::Time) {
      while (auto event = cm.TakeEvent()) events.push_back(std::move(*event));
      return 0;
    });
    if (events.empty()) return;
    for (const Event& event : events) OnEvent(event);
  }
}

void Agent::OnEvent(const Event& event) {
  if (event.kind == EventKind::kReqReceived || event.kind == EventKind::kSidrReqReceived) {
    OnRequest(event);
    return;
  }
  const auto found = connections_.find(event.id.value);
  if (found == connections_.end()) return;
  Id& id = *found->second;
  if (id.is_datagram()) {
    OnResolution(id, event);
  } else {
    OnConnectionEvent(id, event);
  }
}

Id* Agent::FindListener(const Service& service, const std::optional<IpHeader>& header) {
  // A listener that is bound to the address goes before a wildcard.
  Id* found = nullptr;
  for (Id* id : service.ids) {
    if (!Accepts(*id, header)) continue;
    if (!id->address().IsAny()) return id;
    found = id;
  }
  return found;
}

// Without `with_a_word` no REJ is sent, so that the peer sends its request again.
void Agent::Refuse(CommunicationId connection, bool with_a_word) {
  With([&](ConnectionManager& cm, transport::Time now) {
    if (!with_a_word) {
      cm.Abandon(now, connection);
      return 0;
    }
    (void)cm.Reject(now, connection, {.reason = RejectReason::kInvalidServiceId});
    cm.Destroy(now, connection);
    return 0;
  });
}

void Agent::OnRequest(const Event& event) {
  const auto listener = listeners_.find(event.listener_id.value);
  if (listener == listeners_.end()) return Refuse(event.id, /*with_a_word=*/true);
  const auto header = transport::cm::ParseIpHeader(PrivateDataOf(event));
  Id* const id = FindListener(services_.at(listener->second), header);
  const bool is_datagram = event.kind == EventKind::kSidrReqReceived;
  if (id == nullptr || id->is_datagram() != is_datagram) {
    return Refuse(event.id, /*with_a_word=*/true);
  }
  if (id->backlog == 0) return Refuse(event.id, /*with_a_word=*/false);
  --id->backlog;

  QueuedEvent queued;
  queued.id = id;
  queued.new_id = MakeRequestId(*id, event, header);
  queued.response.uid = id->uid;
  queued.response.event = static_cast<uint32_t>(UserEvent::kConnectRequest);
  const size_t skipped = id->address().IsIp() ? IpHeader::kBytes : 0;
  if (is_datagram) {
    CopyPrivateData(PrivateDataOf(event).subspan(skipped), queued.response.param.ud);
  } else {
    Fill(std::get<Req>(event.message), skipped, queued.response.param.conn);
    With([&](ConnectionManager& cm, transport::Time) {
      (void)cm.AcknowledgeReceipt(event.id, kServiceTimeout, {}, /*at_duplicate=*/true);
      return 0;
    });
  }
  id->channel->Push(std::move(queued));
}

std::unique_ptr<Id> Agent::MakeRequestId(const Id& listener, const Event& event,
                                         const std::optional<IpHeader>& header) {
  auto id = std::make_unique<Id>();
  id->channel = listener.channel;
  id->space = listener.space;
  id->qp_type = listener.qp_type;
  id->state = IdState::kConnecting;
  id->type_of_service = listener.type_of_service;
  id->has_device = true;
  id->has_route = true;
  id->starting_psn = NewPsn();
  id->connection = event.id;
  connections_[event.id.value] = id.get();

  transport::cm::Path path{.address = event.source.path, .mtu = device_->facts().mtu};
  if (const auto* req = std::get_if<Req>(&event.message)) {
    transport::QpAttributes attributes;
    With([&](ConnectionManager& cm, transport::Time) {
      uint32_t mask = 0;
      (void)cm.Attributes(event.id, transport::QpState::kReadyToReceive, attributes, mask);
      return 0;
    });
    path.address = attributes.address;
    path.mtu = attributes.path_mtu;
    path.packet_life_time =
        static_cast<uint8_t>(std::max<int>(req->primary.local_ack_timeout - 1, 0));
  }
  path.source_gid = device_->facts().gids[path.address.source_gid_index];
  id->path = path;

  const uint16_t port = listener.binding.port;
  if (listener.address().IsIp()) {
    id->binding.address = IpAddress(header->is_ipv6, header->destination, port);
    id->peer = IpAddress(header->is_ipv6, header->source, header->source_port);
  } else {
    id->binding.address = IbAddress(path.source_gid, listener.address().service_id);
    id->peer = IbAddress(path.address.destination_gid, 0);
  }
  return id;
}

void Agent::OnConnectionEvent(Id& id, const Event& event) {
  const bool is_exit = event.kind == EventKind::kTimewaitExit;
  if (id.state != (is_exit ? IdState::kDisconnected : IdState::kConnecting)) return;
  switch (event.kind) {
    case EventKind::kReqError:
    case EventKind::kRepError:
      return Tell(id, UserEvent::kUnreachable, -ETIMEDOUT);
    case EventKind::kRepReceived: {
      With([&](ConnectionManager& cm, transport::Time) {
        (void)cm.AcknowledgeReceipt(event.id, kServiceTimeout, {}, /*at_duplicate=*/true);
        return 0;
      });
      rdma_ucm_event_resp response = EventOf(UserEvent::kConnectResponse, 0);
      Fill(std::get<Rep>(event.message), 0, response.param.conn);
      return Tell(id, response);
    }
    case EventKind::kRtuReceived:
    case EventKind::kUserEstablished:
      return Tell(id, UserEvent::kEstablished);
    case EventKind::kDreqError:
    case EventKind::kDreqReceived:
    case EventKind::kDrepReceived:
      id.state = IdState::kDisconnected;
      return Tell(id, UserEvent::kDisconnected,
                  event.kind == EventKind::kDreqError ? -ETIMEDOUT : 0);
    case EventKind::kTimewaitExit:
      return Tell(id, UserEvent::kTimewaitExit);
    case EventKind::kRejReceived: {
      const Rej& rej = std::get<Rej>(event.message);
      rdma_ucm_event_resp response = EventOf(UserEvent::kRejected, static_cast<int>(rej.reason));
      CopyPrivateData(std::span(rej.private_data), response.param.conn);
      return Tell(id, response);
    }
    default:  // MRA, and alternate paths, which rdma_cm does not use
      return;
  }
}

void Agent::OnResolution(Id& id, const Event& event) {
  if (id.state != IdState::kConnecting) return;
  if (event.kind == EventKind::kSidrReqError) {
    return Tell(id, UserEvent::kUnreachable, -ETIMEDOUT);
  }
  if (event.kind != EventKind::kSidrRepReceived) return;
  const SidrRep& reply = std::get<SidrRep>(event.message);
  const bool is_accepted = reply.status == SidrStatus::kValidQpn;
  rdma_ucm_event_resp response =
      is_accepted ? EventOf(UserEvent::kEstablished, 0)
                  : EventOf(UserEvent::kUnreachable, static_cast<int>(reply.status));
  CopyPrivateData(std::span(reply.private_data), response.param.ud);
  if (is_accepted) {
    if (ChooseQkey(id, reply.qkey) != 0) return Tell(id, UserEvent::kAddressError, -EINVAL);
    response.param.ud.qp_num = reply.qpn.value;
    response.param.ud.qkey = reply.qkey;
    response.param.ud.ah_attr = ToUser(id.path->address);
  }
  Tell(id, response);
}

}  // namespace uroce::verbs::rdma_cm
