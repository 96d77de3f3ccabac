// Channels, ids, and the queues of events between them.
#include <cerrno>
#include <utility>

#include "verbs_provider/rdma_cm/agent.h"

namespace uroce::verbs::rdma_cm {

using transport::cm::CommunicationId;
using transport::cm::ConnectionManager;
using transport::cm::PortSpace;

Agent::Agent(const transport::Seed& seed, OpenDevice open_device)
    : random_(seed, /*stream=*/1),
      open_device_(std::move(open_device)),
      ports_(
          seed, [this](const auto& service) { return device_->ReserveService(service); },
          [this](const auto& service) { device_->ReleaseService(service); }) {
  host_.kernel_route = [this](const nic::RouteQuestion& question) {
    return device_->FindRoute(question);
  };
}

Agent::~Agent() { CloseAll(); }

int Agent::NeedDevice() {
  if (device_ != nullptr) return device_->has_failed() ? ENODEV : 0;
  int error = ENODEV;
  device_ = open_device_(&error);
  if (device_ == nullptr) return error;
  known_gids_ = device_->facts().gids;
  return 0;
}

void Agent::CloseUnusedDevice() {
  if (ids_.empty()) device_.reset();
}

transport::Psn Agent::NewPsn() { return transport::Psn(static_cast<uint32_t>(random_.Next())); }

Channel* Agent::OpenChannel(Channel::TokenSink tokens) {
  auto channel = std::make_unique<Channel>(std::move(tokens));
  Channel* const opened = channel.get();
  channels_.emplace(opened, std::move(channel));
  return opened;
}

void Agent::CloseIdsOf(Channel& channel) {
  std::vector<uint32_t> handles;
  ids_.ForEach([&](const Id& id) {
    if (id.channel == &channel) handles.push_back(id.handle);
  });
  uint32_t events_reported = 0;
  for (const uint32_t handle : handles) (void)DestroyId(channel, handle, events_reported);
}

void Agent::CloseChannel(Channel* channel) {
  CloseIdsOf(*channel);
  channels_.erase(channel);
}

void Agent::CloseAll() {
  for (const auto& [key, channel] : channels_) CloseIdsOf(*channel);
}

int Agent::Find(const Channel& channel, uint32_t handle, Id*& id) const {
  if (const int error = FindAny(channel, handle, id)) return error;
  return id->state == IdState::kDeviceRemoved ? ENXIO : 0;
}

int Agent::FindAny(const Channel& channel, uint32_t handle, Id*& id) const {
  id = ids_.Find(handle);
  if (id == nullptr) return ENOENT;
  return id->channel == &channel ? 0 : EINVAL;
}

int Agent::CreateId(Channel& channel, uint64_t uid, uint16_t port_space, uint8_t qp_type,
                    uint32_t& handle) {
  auto id = std::make_unique<Id>();
  id->uid = uid;
  id->channel = &channel;
  id->space = static_cast<PortSpace>(port_space);
  switch (id->space) {
    case PortSpace::kTcp:
      id->qp_type = kQpTypeRc;
      break;
    case PortSpace::kUdp:
    case PortSpace::kIpoib:
      id->qp_type = kQpTypeUd;
      break;
    case PortSpace::kIb:
      id->qp_type = qp_type;
      break;
    default:
      return EINVAL;
  }
  id->starting_psn = NewPsn();
  Id* const created = id.get();
  created->handle = handle = ids_.Add(std::move(id));
  return 0;
}

int Agent::DestroyId(Channel& channel, uint32_t handle, uint32_t& events_reported) {
  Id* id = nullptr;
  if (const int error = FindAny(channel, handle, id)) return error;
  End(*id);
  DropEvents(*id);
  events_reported = id->events_reported;
  ids_.Remove(handle);
  CloseUnusedDevice();
  return 0;
}

void Agent::End(Id& id) {
  resolving_.erase(&id);
  LeaveAll(id);
  if (id.state == IdState::kListening) StopListening(id);
  EndConnection(id);
  ports_.Unbind(id.binding);
}

void Agent::EndConnection(Id& id) {
  if (!id.connection) return;
  connections_.erase(id.connection->value);
  With([&](ConnectionManager& cm, transport::Time now) {
    cm.Destroy(now, *id.connection);
    return 0;
  });
  id.connection.reset();
}

void Agent::StopListening(Id& id) {
  const auto service = services_.find(id.binding.service_id());
  if (service == services_.end()) return;
  std::erase(service->second.ids, &id);
  if (!service->second.ids.empty()) return;
  const CommunicationId listener = service->second.listener;
  With([&](ConnectionManager& cm, transport::Time now) {
    cm.Destroy(now, listener);
    return 0;
  });
  listeners_.erase(listener.value);
  services_.erase(service);
}

void Agent::DropEvents(Id& id) {
  auto dropped = id.channel->Take([&](const QueuedEvent& event) { return event.id == &id; });
  for (QueuedEvent& event : dropped) {
    if (event.new_id != nullptr) End(*event.new_id);
  }
}

int Agent::MigrateId(Channel& to, const Channel* from, uint32_t handle, uint32_t& events_reported) {
  if (from == nullptr) return ENOENT;
  if (!IsChannel(from)) return EINVAL;
  Id* id = nullptr;
  if (const int error = Find(*from, handle, id)) return error;
  events_reported = id->events_reported;
  if (id->channel == &to) return 0;
  auto moved = id->channel->Take([&](const QueuedEvent& event) { return event.id == id; });
  id->channel = &to;
  for (QueuedEvent& event : moved) {
    if (event.new_id != nullptr) event.new_id->channel = &to;
    to.Push(std::move(event));
  }
  return 0;
}

int Agent::GetEvent(Channel& channel,
                    const std::function<bool(const rdma_ucm_event_resp&)>& deliver) {
  if (channel.empty()) return EAGAIN;
  QueuedEvent& event = channel.front();
  Id* const new_id = event.new_id.get();
  if (new_id != nullptr) {
    new_id->handle = ids_.Add(std::move(event.new_id));
    event.response.id = new_id->handle;
  }
  if (!deliver(event.response)) {
    if (new_id != nullptr) event.new_id = ids_.Remove(new_id->handle);
    channel.ReturnToken();
    return EFAULT;
  }
  if (new_id != nullptr) ++event.id->backlog;
  ++event.id->events_reported;
  if (event.multicast != nullptr) ++event.multicast->events_reported;
  channel.PopFront();
  return 0;
}

void Agent::Tell(Id& id, const rdma_ucm_event_resp& event) {
  // The application has not accepted this request yet: its accept will fail, which is enough.
  if (id.handle == kNoHandle || id.uid == 0) return;
  QueuedEvent queued;
  queued.id = &id;
  queued.response = event;
  queued.response.uid = id.uid;
  queued.response.id = id.handle;
  id.channel->Push(std::move(queued));
}

void Agent::Tell(Id& id, UserEvent event, int status) {
  rdma_ucm_event_resp response = {};
  response.event = static_cast<uint32_t>(event);
  response.status = static_cast<uint32_t>(status);
  Tell(id, response);
}

}  // namespace uroce::verbs::rdma_cm
