#pragma once

#include <poll.h>

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "dpdk_nic/switch/forwarder.h"
#include "tests/dpdk_nic/switch/fake_wire.h"
#include "tests/dpdk_nic/switch/ring_process.h"

namespace uroce::nic {

// A forwarder with processes and, as a rule, a wire, all in one thread and in virtual time.
class ForwarderRig {
 public:
  struct Options {
    bool has_wire = true;
    bool wire_can_wake = true;
    uint32_t mtu_bytes = 4'200;
  };

  explicit ForwarderRig(Options options)
      : cable(std::make_shared<FakeCable>(options.wire_can_wake)),
        forwarder(
            options.has_wire ? std::make_unique<FakeWire>(cable, options.mtu_bytes) : nullptr,
            options.has_wire ? std::make_unique<FakeLinkLayer>(neighborhood) : nullptr,
            options.has_wire ? std::vector{kOurIpv4, kOurIpv6} : std::vector<transport::Gid>{},
            Listener()) {}
  ForwarderRig() : ForwarderRig(Options{}) {}

  // The process that has the block, connected.
  RingProcess& Process(control::Block block) {
    auto& process = processes_[block];
    if (process == nullptr) {
      process = std::make_unique<RingProcess>();
      Connect(block);
    }
    return *process;
  }
  // Replaces the process's link by a new one.
  RingProcess& Restart(control::Block block) {
    processes_[block].reset();
    return Process(block);
  }

  bool RunOnce(transport::Duration later = transport::Microseconds(1)) {
    now = now + later;
    return forwarder.RunOnce(now);
  }
  // Makes passes until there is nothing left to do.
  void Run() {
    while (RunOnce()) {
    }
  }
  // Makes passes at intervals of 1 ms, for checks that are not part of every pass.
  void RunFor(transport::Duration time) {
    const transport::Time end = now + time;
    while (now < end) RunOnce(transport::Milliseconds(1));
  }

  const control::SwitchCounters& counters() const { return forwarder.counters(); }
  // Whether a sleeper would be woken by an uplink.
  bool has_socket_news() const {
    pollfd uplinks = {forwarder.uplinks_fd(), POLLIN, 0};
    return poll(&uplinks, 1, 0) == 1;
  }

  transport::Time now{1'000'000'000};
  const std::shared_ptr<FakeNeighborhood> neighborhood = std::make_shared<FakeNeighborhood>();
  const std::shared_ptr<FakeCable> cable;
  // The events that the listener received.
  std::vector<control::Neighbor> neighbors;
  std::vector<PacketPort::Notice> notices;
  std::vector<bool> wire_states;
  std::vector<std::vector<transport::Gid>> gid_tables;
  std::vector<control::Block> broken_uplinks;
  Forwarder forwarder;

 private:
  SwitchListener Listener() {
    return {
        .on_neighbor = [this](const control::Neighbor& n) { neighbors.push_back(n); },
        .on_notice = [this](const PacketPort::Notice& n) { notices.push_back(n); },
        .on_wire_state = [this](bool is_up) { wire_states.push_back(is_up); },
        .on_gids = [this](const std::vector<transport::Gid>& gids) { gid_tables.push_back(gids); },
        .on_broken_uplink = [this](control::Block block) { broken_uplinks.push_back(block); },
        .on_wire_sockets = {},
    };
  }
  void Connect(control::Block block) {
    if (forwarder.ConnectUplink(now, block, processes_[block]->TakeSwitchEnd()) != 0) abort();
  }

  std::map<control::Block, std::unique_ptr<RingProcess>> processes_;
};

}  // namespace uroce::nic
