#include "dpdk_nic/control/status_report.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string>

#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/control/server.h"
#include "dpdk_nic/control/session.h"

namespace uroce::nic::control {
namespace {

constexpr uid_t kRoot = 0;
// Clients and links that are shown or skipped in a turn, some microseconds each.
constexpr int kStepsPerTurn = 64;

uint64_t MillisecondsSince(transport::Time then) {
  return static_cast<uint64_t>((Now() - then).ns / transport::Milliseconds(1).ns);
}

// Cut if need be; ends with a NUL.
void CopyName(const std::string& name, std::array<char, kMaxNameBytes>& out) {
  name.copy(out.data(), out.size() - 1);
}

// Empty if the process is gone.
std::string CommandOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string command;
  std::getline(file, command);
  return command;
}

}  // namespace

StatusReport::StatusReport(Server& server, uid_t asker)
    : server_(server), asker_(asker), sees_all_(asker == kRoot || asker == geteuid()) {}

StatusReport::Progress StatusReport::Continue(MessageChannel& channel) {
  for (int i = 0; i < kStepsPerTurn; ++i) {
    if (part_ == Part::kDone) return Progress::kDone;
    if (channel.wants_write()) return Progress::kWaitsForRoom;
    if (!SendNext(channel)) return Progress::kFailed;
  }
  return Progress::kUnderWay;
}

bool StatusReport::SendNext(MessageChannel& channel) {
  switch (part_) {
    case Part::kDaemon:
      part_ = Part::kClients;
      return SendDaemon(channel);
    case Part::kClients:
      return SendClient(channel);
    case Part::kLinks:
      return SendLink(channel);
    case Part::kEnd:
      part_ = Part::kDone;
      return channel.Send(StatusEnd{0});
    case Part::kDone:
      break;
  }
  return true;
}

bool StatusReport::SendDaemon(MessageChannel& channel) {
  const FabricDescription& fabric = server_.fabric();
  StatusDaemon status{};
  status.pid = getpid();
  status.is_private = fabric.is_private;
  status.mtu_bytes = fabric.mtu_bytes;
  fabric.Fill(status);
  status.clients = static_cast<uint32_t>(server_.registry().clients().size());
  status.uptime_ms = MillisecondsSince(server_.started_at());
  CopyName(fabric.port, status.port);
  status.counters = server_.frame_switch().counters();
  return channel.Send(status);
}

bool StatusReport::SendClient(MessageChannel& channel) {
  const Registry::Clients& clients = server_.registry().clients();
  const auto client = clients.lower_bound(next_client_);
  if (client == clients.end()) {
    part_ = Part::kLinks;
    return true;
  }
  const Block block = client->first;
  next_client_ = block + 1;
  if (!MaySee(block)) return true;

  const SwitchUsage usage = server_.frame_switch().usage(block);
  StatusClient status{};
  status.block = block;
  status.pid = client->second.pid;
  status.uid = client->second.uid;
  status.declared_connections = usage.declared_connections;
  status.groups = usage.groups;
  status.attached_ms = MillisecondsSince(client->second.attached_at);
  CopyName(CommandOf(status.pid), status.command);
  const Session& session = *server_.FindClient(block);
  status.wire_drops = session.wire_drops();
  const std::array<int, StatusClient::kDescriptors> fds = {session.published_state()};
  return channel.Send(status, fds);
}

bool StatusReport::SendLink(MessageChannel& channel) {
  const auto& links = server_.registry().links();
  const auto link = links.lower_bound(next_link_);
  if (link == links.end()) {
    part_ = Part::kEnd;
    return true;
  }
  const auto [block, other] = link->first;
  next_link_ = {block, other + 1};
  if (!MaySee(block) && !MaySee(other)) return true;
  return channel.Send(StatusLink{block, other});
}

bool StatusReport::MaySee(Block block) const {
  if (block == kSwitchBlock) return false;
  return sees_all_ || server_.registry().clients().at(block).uid == asker_;
}

}  // namespace uroce::nic::control
