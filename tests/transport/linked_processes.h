#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "tests/transport/connected_pair.h"
#include "transport/endpoint.h"
#include "transport/route.h"

namespace uroce::transport {

inline constexpr MacAddress kHostMac{2, 0, 0, 0, 0, 9};
inline const Gid kHostGid = Gid::FromIpv4({10, 0, 0, 9});

// A process of a host whose processes are linked.
inline EndpointConfig ProcessConfig(uint32_t block, bool has_wire) {
  return {.mac = kHostMac,
          .gids = {Gid::LinkLocal(kHostMac), kHostGid},
          .has_links = true,
          .has_wire = has_wire,
          .first_qpn = Qpn{block * kMaxQps}};
}

// Two processes of one host, each with a queue pair connected to the other's.
struct LinkedProcesses {
  // `progress` is what the link tells the first process.
  explicit LinkedProcesses(bool uses_prediction = true, bool signal_all = false,
                           PeerProgress* progress = nullptr)
      : first(Config(kFirst, uses_prediction, progress), signal_all),
        second(Config(kSecond, uses_prediction), signal_all) {
    first.Connect(kHostGid, kHostMac, second.qp->qpn(), 1, Mtu::k1024);
    second.Connect(kHostGid, kHostMac, first.qp->qpn(), 1, Mtu::k1024);
  }

  // The next frame of the first process, empty if there is none.
  std::span<const uint8_t> Send() { return Next(first, kSecond); }
  DropReason Receive(std::span<const uint8_t> sent) {
    return second.endpoint.OnFrame(now, sent, RouteToBlock(kFirst));
  }
  // Carries the second process's next answer; false if it has none.
  bool Answer() {
    const auto answer = Next(second, kFirst);
    if (answer.empty()) return false;
    EXPECT_EQ(first.endpoint.OnFrame(now, answer, RouteToBlock(kSecond)), DropReason::kNone);
    return true;
  }

  TestHost first;
  TestHost second;
  Time now{1'000};

 private:
  static constexpr uint32_t kFirst = 1;
  static constexpr uint32_t kSecond = 2;

  static EndpointConfig Config(uint32_t block, bool uses_prediction,
                               PeerProgress* progress = nullptr) {
    EndpointConfig config = ProcessConfig(block, /*has_wire=*/true);
    config.uses_prediction = uses_prediction;
    config.peer_progress = progress;
    config.probes = progress != nullptr;
    return config;
  }
  std::span<const uint8_t> Next(TestHost& from, uint32_t to) {
    return std::span(frame_).first(from.endpoint.PollTransmit(now, RouteToBlock(to), frame_));
  }

  std::array<uint8_t, kMaxFrameBytes> frame_;
};

}  // namespace uroce::transport
