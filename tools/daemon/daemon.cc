#include "tools/daemon/daemon.h"

#include <arpa/inet.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/base/log.h"
#include "dpdk_nic/base/mtu.h"
#include "dpdk_nic/control/control_address.h"
#include "dpdk_nic/control/server.h"
#include "dpdk_nic/device/await_link.h"
#include "dpdk_nic/device/device_config.h"
#include "dpdk_nic/device/open_port.h"
#include "dpdk_nic/switch/switch.h"
#include "tools/cli/libraries.h"

namespace uroce::daemon {
namespace {

using nic::Error;
using nic::ErrorOr;
using nic::control::FabricDescription;
using nic::control::FabricListener;
using nic::control::Server;
using transport::Gid;

// A uroced that ends takes a moment to close its descriptors.
constexpr transport::Duration kStopTimeout = transport::Milliseconds(10'000);
constexpr useconds_t kLeaveRetry_us = 5'000;

bool Log(std::string_view sentence) { return nic::Log(nic::LogLevel::kInfo, sentence); }

// Every process costs some descriptors; the usual limit is enough for a few hundred processes.
void RaiseDescriptorLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::string TextOf(const Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text;
  const bool v4 = gid.IsIpv4Mapped();
  return inet_ntop(v4 ? AF_INET : AF_INET6, gid.bytes.data() + (v4 ? 12 : 0), text.data(),
                   text.size());
}

uint32_t LinkMtu(const Options& options) {
  return options.mtu_bytes != 0 ? options.mtu_bytes : nic::kDefaultLinkMtuBytes;
}

ErrorOr<nic::OpenedPort> OpenPort(const Options& options) {
  if (options.port_devargs.empty()) {
    return nic::OpenUplink(options.uplink, LinkMtu(options), options.users.OnlySelf());
  }
  return nic::OpenPort({.devargs = options.port_devargs,
                        .dpdk_library = cli::LibrariesBesideExecutable().dpdk,
                        .mtu_bytes = options.mtu_bytes,
                        .addresses = options.addresses});
}

FabricDescription Describe(const Options& options, const nic::OpenedPort& opened) {
  const nic::PacketPort* const port = opened.port.get();
  FabricDescription fabric;
  fabric.is_private = options.is_private;
  fabric.mtu_bytes = LinkMtu(options);
  if (port == nullptr) return fabric;
  fabric.mtu_bytes = port->mtu();
  fabric.has_wire = true;
  fabric.wire_is_up = port->active();
  fabric.mac = port->mac();
  fabric.gids = opened.gids;
  fabric.is_uplink = options.port_devargs.empty();
  fabric.by_own_sockets = opened.sharing != nullptr;
  fabric.port = fabric.is_uplink ? options.uplink.Text() : options.port_devargs;
  return fabric;
}

std::string Announcement(const Options& options, const FabricDescription& fabric) {
  std::string text = "fabric '" + options.fabric + "' is served, with an MTU of " +
                     std::to_string(fabric.mtu_bytes);
  if (!fabric.has_wire) return text + " and no port";
  text += std::string(" and ") + (fabric.is_uplink ? "uplink" : "port") + " '" + fabric.port +
          "', which is " + (fabric.wire_is_up ? "up" : "down") + " and has the address";
  text += fabric.gids.size() > 1 ? "es " : " ";
  for (const Gid& gid : fabric.gids) text += (gid == fabric.gids[0] ? "" : ", ") + TextOf(gid);
  return text;
}

Server::Config ServerConfig(const Options& options, FabricDescription fabric,
                            boost::asio::io_context& io) {
  Server::Config config;
  config.fabric = std::move(fabric);
  config.admits = [users = options.users](uid_t user) { return users.Allow(user); };
  config.log = Log;
  config.on_unused = [&io] {
    Log("the fabric is not used any more");
    io.stop();
  };
  return config;
}

nic::Switch::Config SwitchConfig(const Options& options, const FabricDescription& fabric,
                                 nic::OpenedPort port, Server& server) {
  nic::Switch::Config config;
  config.wire = std::move(port.port);
  config.link_layer = std::move(port.link_layer);
  config.gids = fabric.gids;
  config.cpu = options.cpu;
  config.sharing = port.sharing;
  config.listener.on_neighbor = [&server](const auto& neighbor) { server.OnNeighbor(neighbor); };
  config.listener.on_notice = [&server](const auto& notice) {
    server.OnNotice(notice.about, notice.sentence);
  };
  config.listener.on_wire_state = [&server](bool is_up) { server.OnWireState(is_up); };
  config.listener.on_gids = [&server](const auto& gids) { server.OnGids(gids); };
  config.listener.on_wire_sockets = [&server] { server.OnWireSockets(); };
  config.listener.on_broken_uplink = [&server](auto block) { server.OnBrokenUplink(block); };
  return config;
}

std::optional<Error> Run(const Options& options, FabricListener listener, nic::OpenedPort port) {
  const FabricDescription fabric = Describe(options, port);
  boost::asio::io_context io;
  boost::asio::signal_set signals(io, SIGTERM, SIGINT);
  signals.async_wait([&io](boost::system::error_code error, int) {
    if (!error) io.stop();
  });
  Server server(io, std::move(listener), ServerConfig(options, fabric, io));
  auto frame_switch = nic::Switch::Create(SwitchConfig(options, fabric, std::move(port), server));
  if (!frame_switch.ok()) return Error{frame_switch.error()};
  server.Start(*frame_switch.value());
  Log(Announcement(options, fabric));
  io.run();
  Log("fabric '" + options.fabric + "' is not served any more");
  return std::nullopt;
}

// Waits for a uroced that is just leaving: it no longer answers, but keeps the name for a moment.
std::optional<FabricListener> ListenWithRetry(const std::string& fabric) {
  const transport::Time give_up = nic::Now() + kStopTimeout;
  while (true) {
    auto listener = FabricListener::Open(fabric);
    if (listener || errno != EADDRINUSE || nic::Now() >= give_up) return listener;
    const bool is_answered = nic::control::ConnectToFabric(fabric).has_value();
    if (is_answered || errno != ECONNREFUSED) break;
    usleep(kLeaveRetry_us);
  }
  errno = EADDRINUSE;
  return std::nullopt;
}

}  // namespace

std::optional<Error> Serve(const Options& options) {
  RaiseDescriptorLimit();
  signal(SIGPIPE, SIG_IGN);  // the reader of the log may end
  auto listener = ListenWithRetry(options.fabric);
  if (!listener && errno == EADDRINUSE) {
    if (options.is_private) return std::nullopt;
    return Error{"fabric '" + options.fabric +
                 "' is served by another uroced: end that one, or choose another name with "
                 "--fabric"};
  }
  if (!listener) {
    return Error{nic::control::WhyNotConnected(options.fabric, errno)};
  }
  auto opened = OpenPort(options);
  if (!opened.ok()) return Error{opened.error()};
  nic::OpenedPort port = std::move(opened).value();
  if (!options.port_devargs.empty()) nic::AwaitLink(options.port_devargs, port.port.get());
  return Run(options, std::move(*listener), std::move(port));
}

}  // namespace uroce::daemon
