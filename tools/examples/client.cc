#include "tools/examples/client.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace live_query {
namespace {

using Clock = std::chrono::steady_clock;

constexpr RetryPolicy kLongTimeout = {.timeout = 14, .retry_count = 7};

const char* StateName(ibv_qp_state state) {
  constexpr const char* kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return state <= IBV_QPS_ERR ? kNames[state] : "?";
}

void Expect(bool promise, const std::string& what) {
  if (!promise) throw std::runtime_error("not as promised: " + what);
}

void PrintHeading() {
  std::printf("  %-37s %-6s %8s %8s %9s %8s %9s\n", "after", "state", "sq_psn", "rq_psn",
              "dest_qpn", "timeout", "retry_cnt");
}

void Print(const std::string& moment, const ibv_qp_attr& attributes) {
  std::printf("  %-37s %-6s %8u %8u %9u %8u %9u\n", moment.c_str(), StateName(attributes.qp_state),
              attributes.sq_psn, attributes.rq_psn, attributes.dest_qp_num, attributes.timeout,
              attributes.retry_cnt);
}

void ExpectState(const ibv_qp_attr& attributes, ibv_qp_state state) {
  Expect(attributes.qp_state == state && attributes.cur_qp_state == state,
         std::string("ibv_query_qp says ") + StateName(attributes.qp_state) +
             ", and the QP is in " + StateName(state));
}

void ExpectPsn(const char* name, uint32_t actual, uint32_t expected) {
  Expect(actual == (expected & kPsnMask), std::string(name) + " is " + std::to_string(actual) +
                                              " instead of " + std::to_string(expected & kPsnMask));
}

void ExpectSuccess(const ibv_wc& completion) {
  Expect(completion.status == IBV_WC_SUCCESS,
         std::string("a completion says ") + ibv_wc_status_str(completion.status));
}

// A message of 0 bytes is a packet too.
uint32_t PacketsOf(size_t bytes, uint32_t mtu_bytes) {
  return std::max(1u, static_cast<uint32_t>((bytes + mtu_bytes - 1) / mtu_bytes));
}

// From RESET to RTS, without queries.
void Connect(RcConnection* connection, ControlChannel* channel, const RetryPolicy& policy) {
  const Endpoint peer =
      EndpointFromString(channel->Ask("CONNECT " + ToString(connection->local())));
  connection->ToInit();
  connection->ToReadyToReceive(peer);
  connection->ToReadyToSend(policy);
}

// The same, with a query in every state on the way. Returns the peer.
Endpoint ConnectAndWatch(RcConnection* connection, ControlChannel* channel) {
  PrintHeading();
  ibv_qp_attr attributes = connection->Query();
  Print("ibv_create_qp", attributes);
  ExpectState(attributes, IBV_QPS_RESET);

  connection->ToInit();
  attributes = connection->Query();
  Print("ibv_modify_qp to INIT", attributes);
  ExpectState(attributes, IBV_QPS_INIT);

  const Endpoint peer =
      EndpointFromString(channel->Ask("CONNECT " + ToString(connection->local())));
  connection->ToReadyToReceive(peer);
  attributes = connection->Query();
  Print("ibv_modify_qp to RTR", attributes);
  ExpectState(attributes, IBV_QPS_RTR);
  ExpectPsn("rq_psn", attributes.rq_psn, peer.psn);
  Expect(attributes.dest_qp_num == peer.qp_number, "dest_qp_num is not the peer's QP number");
  Expect(std::memcmp(&attributes.ah_attr.grh.dgid, &peer.gid, sizeof(peer.gid)) == 0,
         "ah_attr.grh.dgid is not the peer's GID");

  connection->ToReadyToSend(kLongTimeout);
  attributes = connection->Query();
  Print("ibv_modify_qp to RTS", attributes);
  ExpectState(attributes, IBV_QPS_RTS);
  ExpectPsn("sq_psn", attributes.sq_psn, connection->local().psn);
  Expect(attributes.timeout == kLongTimeout.timeout &&
             attributes.retry_cnt == kLongTimeout.retry_count,
         "timeout or retry_cnt is not what was set");
  return peer;
}

// Every operation moves sq_psn by its number of packets: a READ by that of its response
// (IBA 9.7.3).
void WatchRequests(RcConnection* connection) {
  struct Step {
    const char* name;
    ibv_wr_opcode operation;
    size_t offset;
    size_t bytes;
  };
  constexpr size_t kReadBack = size_t{1} << 20;
  constexpr size_t kPatternBytes = 65536;
  constexpr Step kSteps[] = {
      {"RDMA WRITE of 65536 bytes", IBV_WR_RDMA_WRITE, 0, kPatternBytes},
      {"RDMA READ of 65536 bytes", IBV_WR_RDMA_READ, kReadBack, kPatternBytes},
      {"SEND of 100 bytes", IBV_WR_SEND, 0, 100},
      {"RDMA WRITE of 0 bytes", IBV_WR_RDMA_WRITE, 0, 0},
      {"FETCH_ADD", IBV_WR_ATOMIC_FETCH_AND_ADD, kReadBack + kPatternBytes, 8},
  };
  std::span<std::byte> buffer = connection->buffer();
  for (size_t i = 0; i < kPatternBytes; ++i) buffer[i] = static_cast<std::byte>(i * 7 + i / 251);

  uint32_t expected_psn = connection->Query().sq_psn;
  for (const Step& step : kSteps) {
    connection->Post(step.operation, step.offset, step.bytes, /*remote_offset=*/0);
    ExpectSuccess(connection->Wait());
    expected_psn += PacketsOf(step.bytes, connection->mtu_bytes());
    const ibv_qp_attr attributes = connection->Query();
    Print(step.name, attributes);
    ExpectState(attributes, IBV_QPS_RTS);
    ExpectPsn("sq_psn", attributes.sq_psn, expected_psn);
  }
  Expect(std::equal(buffer.begin(), buffer.begin() + kPatternBytes, buffer.begin() + kReadBack),
         "the READ returned other bytes than the WRITE wrote");
  Expect(std::equal(buffer.begin(), buffer.begin() + 8, buffer.begin() + kReadBack + kPatternBytes),
         "FETCH_ADD returned another value than the WRITE wrote");
}

// Every packet from the peer moves rq_psn.
void WatchReceives(RcConnection* connection, ControlChannel* channel) {
  constexpr int kMessages = 3;
  constexpr unsigned kBytes = 10000;
  for (int i = 0; i < kMessages; ++i) connection->PostReceive();
  const uint32_t before = connection->Query().rq_psn;
  channel->Ask("SEND " + std::to_string(kMessages) + " " + std::to_string(kBytes));
  for (int i = 0; i < kMessages; ++i) {
    const ibv_wc completion = connection->Wait();
    ExpectSuccess(completion);
    Expect(completion.opcode == IBV_WC_RECV && completion.byte_len == kBytes,
           "a receive completion does not describe the message");
  }
  const ibv_qp_attr attributes = connection->Query();
  Print("3 SENDs of 10000 bytes from the peer", attributes);
  ExpectPsn("rq_psn", attributes.rq_psn,
            before + kMessages * PacketsOf(kBytes, connection->mtu_bytes()));
}

// Queries between the polls, while the device works on 64 MiB.
void WatchInFlight(RcConnection* connection) {
  constexpr int kMessages = 64;
  constexpr size_t kBytes = size_t{1} << 20;
  constexpr size_t kPrinted = 6;
  const uint32_t first = connection->Query().sq_psn;
  const uint32_t packets = PacketsOf(kBytes, connection->mtu_bytes());
  const uint32_t total = kMessages * packets;
  for (int i = 0; i < kMessages; ++i) connection->Post(IBV_WR_RDMA_WRITE, 0, kBytes, 0);

  std::vector<uint32_t> seen;  // Packets after `first`, rising.
  for (int completed = 0; completed < kMessages;) {
    ibv_wc completion{};
    if (connection->Poll(&completion)) {
      ExpectSuccess(completion);
      ++completed;
    }
    const uint32_t progress = (connection->Query().sq_psn - first) & kPsnMask;
    Expect(progress <= total, "sq_psn ran past the last packet");
    // A packet that is not answered in time is sent again, but never one that was acknowledged.
    Expect(progress >= completed * packets, "sq_psn moved back behind what has completed");
    if (seen.empty() || progress > seen.back()) seen.push_back(progress);
  }
  Expect(seen.size() > 2, "sq_psn was never seen between its first and its last value");
  Expect(seen.back() == total, "sq_psn did not count every packet");
  std::printf("  sq_psn while 64 MiB are written, %zu values seen:", seen.size());
  for (size_t i = 0; i < kPrinted; ++i) {
    const size_t index = i * (seen.size() - 1) / (kPrinted - 1);
    std::printf(" %u", (first + seen[index]) & kPsnMask);
  }
  std::printf("\n");
}

// The peer stops answering: the QP must go to ERR when `policy` says so.
void WatchSilentPeer(const Device& device, ControlChannel* channel, const RetryPolicy& policy) {
  RcConnection connection(device);
  Connect(&connection, channel, policy);
  connection.Post(IBV_WR_RDMA_WRITE, 0, 64, 0);
  ExpectSuccess(connection.Wait());
  channel->Ask("SILENCE");

  const Clock::time_point start = Clock::now();
  connection.Post(IBV_WR_RDMA_WRITE, 0, 64, 0);
  connection.Post(IBV_WR_RDMA_WRITE, 0, 64, 0);
  ExpectState(connection.Query(), IBV_QPS_RTS);
  const ibv_wc failed = connection.Wait();
  const std::chrono::duration<double> elapsed = Clock::now() - start;
  const ibv_wc flushed = connection.Wait();
  const ibv_qp_attr attributes = connection.Query();

  std::printf("  %7u %9u %12.1f ms %8.1f ms %8.2f  %2d, then %d   %s\n", policy.timeout,
              policy.retry_count, policy.AtLeast().count() * 1e3, elapsed.count() * 1e3,
              elapsed / policy.AtLeast(), failed.status, flushed.status,
              StateName(attributes.qp_state));
  Expect(failed.status == IBV_WC_RETRY_EXC_ERR,
         std::string("the request ended with ") + ibv_wc_status_str(failed.status));
  Expect(flushed.status == IBV_WC_WR_FLUSH_ERR,
         std::string("the request behind it ended with ") + ibv_wc_status_str(flushed.status));
  ExpectState(attributes, IBV_QPS_ERR);
  Expect(elapsed >= policy.AtLeast(), "the QP gave up too early");
  Expect(elapsed <= policy.AtMost(), "the QP gave up too late");
}

}  // namespace

void RunClient(const Device& device, ControlChannel channel) {
  std::printf("a QP of %s, as ibv_query_qp sees it:\n",
              ibv_get_device_name(device.context()->device));
  {
    RcConnection connection(device);
    ConnectAndWatch(&connection, &channel);
    WatchRequests(&connection);
    WatchReceives(&connection, &channel);
    WatchInFlight(&connection);
  }

  std::printf(
      "\nthe peer falls silent; promised is (retry_cnt + 1) * 4.096 us * 2^timeout, at most"
      " 4 times that:\n");
  std::printf("  %7s %9s %15s %11s %8s  %-10s  %s\n", "timeout", "retry_cnt", "promised",
              "measured", "ratio", "statuses", "state");
  constexpr RetryPolicy kPolicies[] = {{.timeout = 12, .retry_count = 3},
                                       {.timeout = 14, .retry_count = 2},
                                       {.timeout = 16, .retry_count = 0},
                                       {.timeout = 16, .retry_count = 1}};
  for (const RetryPolicy& policy : kPolicies) WatchSilentPeer(device, &channel, policy);
  channel.Write("BYE");
  std::printf("\nlive_query: everything was as promised\n");
}

}  // namespace live_query
