#include "tests/system/churn/server.h"

#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/system/churn/station.h"

namespace churn {
namespace {

constexpr int kBacklog = 1'024;

class Server {
 public:
  explicit Server(const sockaddr_in& address) : connections_(kSlots) {
    Require(rdma_create_id(station_.channel(), &listener_, nullptr, RDMA_PS_TCP) == 0,
            "rdma_create_id");
    sockaddr_in own = address;
    Require(rdma_bind_addr(listener_, reinterpret_cast<sockaddr*>(&own)) == 0, "rdma_bind_addr");
    Require(rdma_listen(listener_, kBacklog) == 0, "rdma_listen");
    std::puts("listening");
    std::fflush(stdout);
  }

  void Serve() {
    station_.Serve([this](const rdma_cm_event& event) { OnEvent(event); },
                   [this](uint32_t slot) { OnMessage(slot); });
  }

 private:
  struct Connection {
    rdma_cm_id* id = nullptr;
    uint32_t number = 0;
  };

  void OnEvent(const rdma_cm_event& event) {
    switch (event.event) {
      case RDMA_CM_EVENT_CONNECT_REQUEST:
        return Accept(event);
      case RDMA_CM_EVENT_ESTABLISHED:
        return;
      case RDMA_CM_EVENT_DISCONNECTED: {
        rdma_disconnect(event.id);
        const auto slot = slots_.find(event.id);
        station_.Close(event.id, slot->second);
        slots_.erase(slot);
        return;
      }
      default:
        throw std::runtime_error(std::string("unexpected event ") + rdma_event_str(event.event));
    }
  }

  void Accept(const rdma_cm_event& event) {
    const uint32_t slot = station_.Open(event.id);
    Connection& connection = connections_[slot];
    connection.id = event.id;
    std::memcpy(&connection.number, event.param.conn.private_data, sizeof connection.number);
    slots_[event.id] = slot;
    rdma_conn_param parameters{};
    parameters.rnr_retry_count = 7;
    Require(rdma_accept(event.id, &parameters) == 0, "rdma_accept");
  }

  void OnMessage(uint32_t slot) {
    const Connection& connection = connections_[slot];
    station_.Check(slot, connection.number, /*is_answer=*/false);
    station_.Send(connection.id, slot, connection.number, /*is_answer=*/true);
  }

  Station station_;
  rdma_cm_id* listener_ = nullptr;
  std::vector<Connection> connections_;  // by slot
  std::unordered_map<const rdma_cm_id*, uint32_t> slots_;
};

}  // namespace

void RunServer(const sockaddr_in& address) {
  Server server(address);
  while (true) server.Serve();
}

}  // namespace churn
