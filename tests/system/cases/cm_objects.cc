#include "tests/system/cases/cm_objects.h"

#include <arpa/inet.h>
#include <poll.h>

#include <cerrno>
#include <cstring>

namespace uroce::verbs::testing {
namespace {

constexpr int kMinuteMs = 60'000;
constexpr int kResolveTimeoutMs = 2'000;

}  // namespace

void IdDestroyer::operator()(rdma_cm_id* id) const {
  if (id->qp != nullptr) rdma_destroy_qp(id);
  EXPECT_EQ(rdma_destroy_id(id), 0) << std::strerror(errno);
}

EventChannel::EventChannel() : channel_(rdma_create_event_channel()) {
  EXPECT_NE(channel_, nullptr);
}

EventChannel::~EventChannel() { rdma_destroy_event_channel(channel_); }

CmId EventChannel::CreateId() {
  rdma_cm_id* id = nullptr;
  EXPECT_EQ(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), 0) << std::strerror(errno);
  return CmId(id);
}

CmEvent EventChannel::Next() {
  pollfd waiting = {.fd = channel_->fd, .events = POLLIN, .revents = 0};
  rdma_cm_event* event = nullptr;
  if (poll(&waiting, 1, kMinuteMs) != 1 || rdma_get_cm_event(channel_, &event) != 0) {
    ADD_FAILURE() << "no event";
    return {};
  }
  const auto* const data = static_cast<const uint8_t*>(event->param.conn.private_data);
  CmEvent copy = {.type = event->event,
                  .status = event->status,
                  .id = event->id,
                  .qp_num = event->param.conn.qp_num,
                  .private_data = {}};
  if (data != nullptr) copy.private_data.assign(data, data + event->param.conn.private_data_len);
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
  return copy;
}

CmEvent EventChannel::Expect(rdma_cm_event_type type) {
  CmEvent event = Next();
  EXPECT_EQ(event.type, type) << rdma_event_str(event.type) << ", status " << event.status;
  return event;
}

bool EventChannel::IsQuiet() const {
  pollfd waiting = {.fd = channel_->fd, .events = POLLIN, .revents = 0};
  return poll(&waiting, 1, 0) == 0;
}

CmId EventChannel::Listen(const char* address) {
  CmId id = CreateId();
  sockaddr_in any_port = Ipv4(address, 0);
  EXPECT_EQ(rdma_bind_addr(id.get(), Generic(&any_port)), 0) << std::strerror(errno);
  EXPECT_EQ(rdma_listen(id.get(), 8), 0) << std::strerror(errno);
  return id;
}

void EventChannel::Resolve(rdma_cm_id* id, uint16_t port) {
  sockaddr_in address = Ipv4("127.0.0.1", port);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, Generic(&address), kResolveTimeoutMs), 0);
  Expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  ASSERT_EQ(rdma_resolve_route(id, kResolveTimeoutMs), 0);
  Expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

sockaddr_in Ipv4(const char* address, uint16_t port) {
  sockaddr_in result = {};
  result.sin_family = AF_INET;
  result.sin_port = htons(port);
  EXPECT_EQ(inet_pton(AF_INET, address, &result.sin_addr), 1);
  return result;
}

uint16_t SourcePort(rdma_cm_id* id) { return ntohs(rdma_get_src_port(id)); }

rdma_conn_param Parameters() {
  rdma_conn_param parameters = {};
  parameters.responder_resources = 1;
  parameters.initiator_depth = 1;
  parameters.retry_count = 7;
  parameters.rnr_retry_count = 7;
  return parameters;
}

void CreateQueuePair(rdma_cm_id* id) {
  ibv_qp_init_attr attr = {};
  attr.qp_type = IBV_QPT_RC;
  attr.cap = {.max_send_wr = 16,
              .max_recv_wr = 16,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  ASSERT_EQ(rdma_create_qp(id, nullptr, &attr), 0) << std::strerror(errno);
}

}  // namespace uroce::verbs::testing
