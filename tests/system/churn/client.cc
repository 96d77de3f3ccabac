#include "tests/system/churn/client.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/system/churn/station.h"

namespace churn {
namespace {

constexpr int kResolveTimeoutMs = 2'000;

void PrintResources(uint32_t rounds) {
  std::ifstream statm("/proc/self/statm");
  long pages = 0;
  long resident = 0;
  statm >> pages >> resident;
  const std::filesystem::directory_iterator descriptors("/proc/self/fd");
  std::printf("%u %ld %td\n", rounds, resident * (sysconf(_SC_PAGESIZE) / 1'024),
              std::distance(begin(descriptors), end(descriptors)));
}

class Client {
 public:
  explicit Client(const sockaddr_in& address) : address_(address), connections_(kSlots) {}

  void RunRound(uint32_t first_number, uint32_t count) {
    pending_.assign(count, {});
    for (uint32_t i = 0; i < count; ++i) Resolve(pending_[i], first_number + i);
    WaitFor(established_, count);
    for (const Connection& connection : pending_) {
      station_.Send(connection.id, connection.slot, connection.number, /*is_answer=*/false);
    }
    WaitFor(answered_, count);
    for (const Connection& connection : pending_) {
      Require(rdma_disconnect(connection.id) == 0, "rdma_disconnect");
    }
    WaitFor(disconnected_, count);
  }

 private:
  struct Connection {
    rdma_cm_id* id = nullptr;
    uint32_t slot = 0;
    uint32_t number = 0;
  };

  void WaitFor(uint32_t& counter, uint32_t count) {
    while (counter < count) {
      station_.Serve([this](const rdma_cm_event& event) { OnEvent(event); },
                     [this](uint32_t slot) { OnMessage(slot); });
    }
    counter = 0;
  }

  void Resolve(Connection& connection, uint32_t number) {
    connection.number = number;
    Require(rdma_create_id(station_.channel(), &connection.id, &connection, RDMA_PS_TCP) == 0,
            "rdma_create_id");
    sockaddr_in peer = address_;
    Require(rdma_resolve_addr(connection.id, nullptr, reinterpret_cast<sockaddr*>(&peer),
                              kResolveTimeoutMs) == 0,
            "rdma_resolve_addr");
  }

  void OnEvent(const rdma_cm_event& event) {
    auto& connection = *static_cast<Connection*>(event.id->context);
    switch (event.event) {
      case RDMA_CM_EVENT_ADDR_RESOLVED:
        connection.slot = station_.Open(event.id);
        connections_[connection.slot] = &connection;
        Require(rdma_resolve_route(event.id, kResolveTimeoutMs) == 0, "rdma_resolve_route");
        return;
      case RDMA_CM_EVENT_ROUTE_RESOLVED: {
        rdma_conn_param parameters{};
        parameters.private_data = &connection.number;
        parameters.private_data_len = sizeof connection.number;
        parameters.retry_count = 7;
        parameters.rnr_retry_count = 7;
        Require(rdma_connect(event.id, &parameters) == 0, "rdma_connect");
        return;
      }
      case RDMA_CM_EVENT_ESTABLISHED:
        ++established_;
        return;
      case RDMA_CM_EVENT_DISCONNECTED:
        station_.Close(event.id, connection.slot);
        ++disconnected_;
        return;
      default:
        throw std::runtime_error(std::string("unexpected event ") + rdma_event_str(event.event));
    }
  }

  void OnMessage(uint32_t slot) {
    station_.Check(slot, connections_[slot]->number, /*is_answer=*/true);
    ++answered_;
  }

  const sockaddr_in address_;
  Station station_;
  std::vector<Connection> pending_;       // of the round
  std::vector<Connection*> connections_;  // by slot
  uint32_t established_ = 0;
  uint32_t answered_ = 0;
  uint32_t disconnected_ = 0;
};

}  // namespace

void RunClient(const sockaddr_in& address, uint32_t connections, uint32_t at_once) {
  Client client(address);
  const uint32_t rounds = (connections + at_once - 1) / at_once;
  const auto begin = std::chrono::steady_clock::now();
  for (uint32_t round = 0; round < rounds; ++round) {
    const uint32_t first = round * at_once;
    client.RunRound(first, std::min(at_once, connections - first));
    if (round == rounds / 2 || round == rounds - 1) PrintResources(round + 1);
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  std::printf("%.0f connections a second\n", connections / elapsed.count());
}

}  // namespace churn
