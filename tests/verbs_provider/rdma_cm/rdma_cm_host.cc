#include "tests/verbs_provider/rdma_cm/rdma_cm_host.h"

#include <optional>
#include <utility>

namespace uroce::verbs::rdma_cm {

class Host::Device : public DeviceAccess {
 public:
  explicit Device(Host& host) : host_(host) {
    const transport::MacAddress mac{2, 0, 0, 0, 0, host.gid_.bytes[15]};
    facts_ = {.gids = {Gid::LinkLocal(mac), host.gid_},
              .has_wire = host.has_wire,
              .node_guid = 0x1234,
              .mtu = transport::Mtu::k4096};
  }
  bool has_failed() override { return host_.has_device_failed; }
  const DeviceFacts& facts() override {
    facts_.gids[1] = host_.has_address ? host_.gid_ : host_.other_gid;
    return facts_;
  }
  nic::KernelRoute FindRoute(const nic::RouteQuestion& question) override {
    return host_.kernel_route ? host_.kernel_route(question) : nic::KernelRoute{};
  }
  uint8_t HopLimit(const nic::RouteQuestion&) override { return host_.hop_limit; }
  bool KnowsNextHop(const nic::RouteQuestion& question) override {
    return KnowsNeighbor(question.destination);
  }
  bool KnowsNeighbor(const Gid& destination) override {
    return !host_.silent_neighbors.contains(destination);
  }
  void ExplainMissingGid(const Gid& address) override { host_.missing_gid = address; }
  void WithConnectionManager(const Use& use) override { use(host_.manager_, host_.network_.now); }
  int ReserveService(const Service& service) override {
    for (const auto& [owner, reserved] : host_.network_.services) {
      const bool same_gid = owner->gid_ == host_.gid_;
      if (owner != &host_ && same_gid && reserved.id == service.id) return EADDRINUSE;
    }
    ReleaseService(service);
    host_.network_.services.emplace_back(&host_, service);
    return 0;
  }
  void ReleaseService(const Service& service) override {
    std::erase_if(host_.network_.services, [&](const auto& entry) {
      return entry.first == &host_ && entry.second.id == service.id &&
             entry.second.address == service.address && entry.second.only_ipv6 == service.only_ipv6;
    });
  }

 private:
  Host& host_;
  DeviceFacts facts_;
};

Host::Host(Network& network, uint8_t number, std::optional<Gid> gid)
    : network_(network),
      gid_(gid.value_or(Gid::FromIpv4({10, 0, 0, number}))),
      manager_({.ca_guid = 0x1000u + number, .ack_delay = 15, .seed = {number, 7}}),
      agent_({number, 1},
             [this](int*) {
               ++device_opens;
               return std::make_unique<Device>(*this);
             }),
      channel_(agent_.OpenChannel([this](int delta) { tokens += delta; })) {
  network.hosts.push_back(this);
}

int Host::WriteBytes(uint32_t number, std::span<const uint8_t> command, size_t out,
                     Channel* channel) {
  std::vector<uint8_t> bytes(sizeof(rdma_ucm_cmd_hdr));
  const rdma_ucm_cmd_hdr header{number, static_cast<uint16_t>(command.size()),
                                static_cast<uint16_t>(out)};
  std::memcpy(bytes.data(), &header, sizeof header);
  bytes.insert(bytes.end(), command.begin(), command.end());
  return RunCommand(agent_, channel == nullptr ? *channel_ : *channel, migrate_from,
                    reinterpret_cast<uintptr_t>(bytes.data()), bytes.size());
}

uint32_t Host::Create(uint16_t space, uint8_t qp_type, uint64_t uid) {
  rdma_ucm_create_id_resp answer{};
  rdma_ucm_create_id command{};
  command.uid = uid == 0 ? ++last_uid_ : uid;
  command.response = reinterpret_cast<uintptr_t>(&answer);
  command.ps = space;
  command.qp_type = qp_type;
  EXPECT_EQ(Write(RDMA_USER_CM_CMD_CREATE_ID, command, sizeof answer), 0);
  return answer.id;
}

int Host::Destroy(uint32_t id, uint32_t* events_reported) {
  rdma_ucm_destroy_id_resp answer{};
  rdma_ucm_destroy_id command{};
  command.response = reinterpret_cast<uintptr_t>(&answer);
  command.id = id;
  const int error = Write(RDMA_USER_CM_CMD_DESTROY_ID, command, sizeof answer);
  if (events_reported != nullptr) *events_reported = answer.events_reported;
  return error;
}

rdma_ucm_conn_param Host::Parameters(uint32_t qpn, const std::string& private_data) {
  rdma_ucm_conn_param parameters{};
  parameters.qp_num = qpn;
  parameters.responder_resources = 4;
  parameters.initiator_depth = 3;
  parameters.retry_count = 6;
  parameters.rnr_retry_count = 5;
  parameters.flow_control = 1;
  parameters.valid = 1;
  parameters.private_data_len = static_cast<uint8_t>(private_data.size());
  std::memcpy(parameters.private_data, private_data.data(), private_data.size());
  return parameters;
}

int Host::Connect(uint32_t id, const rdma_ucm_conn_param& parameters) {
  rdma_ucm_connect command{};
  command.id = id;
  command.conn_param = parameters;
  return Write(RDMA_USER_CM_CMD_CONNECT, command);
}

int Host::Accept(uint32_t id, const rdma_ucm_conn_param& parameters) {
  rdma_ucm_accept command{};
  command.uid = ++last_uid_;
  command.id = id;
  command.conn_param = parameters;
  return Write(RDMA_USER_CM_CMD_ACCEPT, command);
}

int Host::ConfirmReady(uint32_t id) {
  rdma_ucm_accept command{};
  command.id = id;
  return Write(RDMA_USER_CM_CMD_ACCEPT, command);
}

int Host::InitQp(uint32_t id, uint32_t state, ib_uverbs_qp_attr& answer) {
  rdma_ucm_init_qp_attr command{};
  command.response = reinterpret_cast<uintptr_t>(&answer);
  command.id = id;
  command.qp_state = state;
  return Write(RDMA_USER_CM_CMD_INIT_QP_ATTR, command, sizeof answer);
}

int Host::SetAckTimeout(uint32_t id, uint8_t timeout) {
  return Write(RDMA_USER_CM_CMD_SET_OPTION,
               rdma_ucm_set_option{.optval = reinterpret_cast<uintptr_t>(&timeout),
                                   .id = id,
                                   .level = RDMA_OPTION_ID,
                                   .optname = RDMA_OPTION_ID_ACK_TIMEOUT,
                                   .optlen = sizeof timeout});
}

int Host::Join(uint32_t id, uint32_t& member, uint16_t flags) {
  rdma_ucm_create_id_resp answer{};
  rdma_ucm_join_mcast command{};
  command.response = reinterpret_cast<uintptr_t>(&answer);
  command.uid = 77;
  command.id = id;
  command.addr_size = sizeof(sockaddr_in);
  command.join_flags = flags;
  const sockaddr_in group = Ipv4(0xef01'0203, 0);
  std::memcpy(&command.addr, &group, sizeof group);
  const int error = Write(RDMA_USER_CM_CMD_JOIN_MCAST, command, sizeof answer);
  member = answer.id;
  return error;
}

int Host::Leave(uint32_t member, uint32_t& events_reported) {
  rdma_ucm_destroy_id_resp answer{};
  rdma_ucm_destroy_id command{};
  command.response = reinterpret_cast<uintptr_t>(&answer);
  command.id = member;
  const int error = Write(RDMA_USER_CM_CMD_LEAVE_MCAST, command, sizeof answer);
  events_reported = answer.events_reported;
  return error;
}

int Host::GetEvent(rdma_ucm_event_resp& event, Channel* channel) {
  rdma_ucm_get_event command{};
  command.response = reinterpret_cast<uintptr_t>(&event);
  const int error = Write(RDMA_USER_CM_CMD_GET_EVENT, command, sizeof event, channel);
  if (error == 0) --tokens;  // the virtual kernel takes a token before it asks
  return error;
}

rdma_ucm_event_resp Host::Expect(UserEvent kind) {
  rdma_ucm_event_resp event{};
  EXPECT_EQ(GetEvent(event), 0);
  EXPECT_EQ(event.event, static_cast<uint32_t>(kind));
  return event;
}

void Host::ExpectNoEvent() {
  rdma_ucm_event_resp event{};
  EXPECT_EQ(GetEvent(event), EAGAIN);
  EXPECT_EQ(tokens, 0);
}

rdma_ucm_query_addr_resp Host::Query(uint32_t id, uint32_t option) {
  rdma_ucm_query_addr_resp answer{};
  rdma_ucm_query command{};
  command.response = reinterpret_cast<uintptr_t>(&answer);
  command.id = id;
  command.option = option;
  EXPECT_EQ(Write(RDMA_USER_CM_CMD_QUERY, command, sizeof answer), 0);
  return answer;
}

void Network::Run() {
  for (bool moved = true; moved;) {
    moved = false;
    for (Host* from : hosts) {
      while (auto mad = from->manager_.PollTransmit()) {
        moved = true;
        for (Host* to : hosts) {
          const bool is_for = mad->destination.path.destination_gid == to->gid_;
          if (!is_for) continue;
          transport::cm::MadAddress source;
          source.path.destination_gid = from->gid_;
          source.path.source_gid_index = 1;
          to->manager_.OnMad(now, mad->mad, source);
        }
      }
      from->agent_.TakeConnectionEvents();
      moved = moved || from->manager_.HasTransmit();
    }
  }
}

void Network::Advance(transport::Duration by) {
  now = now + by;
  for (Host* host : hosts) {
    host->manager_.OnDeadline(now);
    host->agent_.ServeResolutions();
  }
  Run();
}

}  // namespace uroce::verbs::rdma_cm
