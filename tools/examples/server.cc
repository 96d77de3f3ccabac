#include "tools/examples/server.h"

#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>

namespace live_query {
namespace {

constexpr int kReceives = 16;
constexpr RetryPolicy kPolicy = {.timeout = 14, .retry_count = 7};

// Counts the completions of our SENDs; those of receives are ignored.
void WaitForSends(RcConnection* connection, int count) {
  while (count > 0) {
    const ibv_wc completion = connection->Wait();
    if (completion.status != IBV_WC_SUCCESS) {
      throw std::runtime_error(std::string("a request of the server failed: ") +
                               ibv_wc_status_str(completion.status));
    }
    if (completion.opcode == IBV_WC_SEND) --count;
  }
}

void Send(RcConnection* connection, const std::string& line) {
  int count = 0;
  unsigned bytes = 0;
  if (std::sscanf(line.c_str(), "SEND %d %u", &count, &bytes) != 2) {
    throw std::runtime_error("the client asked for '" + line + "', which is no request");
  }
  for (int i = 0; i < count; ++i) connection->Post(IBV_WR_SEND, 0, bytes, 0);
  WaitForSends(connection, count);
}

}  // namespace

void Serve(const Device& device, ControlChannel channel) {
  std::optional<RcConnection> connection;
  const std::string connect = "CONNECT ";
  for (std::string line = channel.Read(); line != "BYE"; line = channel.Read()) {
    if (line.starts_with(connect)) {
      connection.emplace(device);
      connection->ToInit();
      for (int i = 0; i < kReceives; ++i) connection->PostReceive();
      connection->ToReadyToReceive(EndpointFromString(line.substr(connect.size())));
      connection->ToReadyToSend(kPolicy);
      channel.Write(ToString(connection->local()));
      continue;
    }
    if (!connection) throw std::runtime_error("the client asked for '" + line + "' unconnected");
    if (line == "SILENCE") {
      // IBA 10.3.1: packets that arrive for a QP in the Reset state are silently dropped.
      connection->ToReset();
    } else {
      Send(&*connection, line);
    }
    channel.Write("DONE");
  }
}

}  // namespace live_query
