#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <string>

#include "dpdk_nic/port/fabric/fabric_port.h"
#include "tests/dpdk_nic/control/fabric_names.h"
#include "tests/dpdk_nic/port/fabric/fake_uroced.h"
#include "transport/limits.h"
#include "transport/route.h"
#include "transport/wire/encapsulation.h"

namespace uroce::nic {

inline bool IsReadable(int fd) {
  pollfd poll_fd{fd, POLLIN, 0};
  return poll(&poll_fd, 1, 0) == 1;
}

// Ports of one fabric, all in this process, and a FakeUroced.
class FabricPortTest : public ::testing::Test {
 protected:
  using PathState = PacketPort::PathState;
  using Route = transport::Route;

  explicit FabricPortTest(control::Welcome like = FakeUroced::LocalFabric())
      : like_(like), uroced_(std::make_unique<FakeUroced>(fabric_, like)) {}

  FabricPort::Options OptionsWithIp(const transport::Gid& ip) const {
    FabricPort::Options options;
    options.fabric = fabric_;
    options.ip = ip;
    options.published_state_fd = published_state_.get();
    options.link_thread = LinkThread::Mode::kInline;
    options.icrc = icrc_;
    return options;
  }
  std::unique_ptr<FabricPort> NewPort() {
    auto port =
        std::make_unique<FabricPort>(OptionsWithIp(transport::Gid::FromIpv4({127, 0, 0, 1})));
    uroced_->Attach(*port);
    return port;
  }

  static control::Block BlockOf(const FabricPort& port) { return port.fabric().block; }
  static Route RouteTo(const FabricPort& port) { return transport::RouteToBlock(BlockOf(port)); }
  static PacketPort::Path PathTo(const FabricPort& port) {
    return {.route = RouteTo(port),
            .local = {1},
            .remote = {BlockOf(port) * transport::kMaxQps + 1},
            .remote_gid = transport::Gid::FromIpv4({127, 0, 0, 1})};
  }

  template <class... Port>
  void ServeAll(Port&... ports) {
    for (int i = 0; i < 4; ++i) {
      (ports.ServeLink(), ...);
      if (uroced_) uroced_->Serve();
    }
    (ports.ServeLink(), ...);
  }
  // Makes the link between the two ports.
  void Link(FabricPort& from, FabricPort& to) {
    EXPECT_EQ(from.PreparePath(PathTo(to)), PathState::kPending);
    ServeAll(from, to);
    ASSERT_EQ(from.PreparePath(PathTo(to)), PathState::kReady);
    ASSERT_EQ(to.PreparePath(PathTo(from)), PathState::kReady) << "one link for both";
  }

  static bool SendByte(FabricPort& from, Route route, uint8_t value) {
    const std::span<uint8_t> room = from.AcquireTransmit(route);
    if (room.empty()) return false;
    std::fill_n(room.begin(), 62, uint8_t{0});
    room[0] = value;
    from.CommitTransmit(62);
    from.Flush();
    return true;
  }
  static bool SendByte(FabricPort& from, const FabricPort& to, uint8_t value) {
    return SendByte(from, RouteTo(to), value);
  }
  // Asks until there is an answer. The port remembers a failure for 10 ms, then asks uroced again.
  static PathState PrepareUntilAnswered(FabricPort& port, const PacketPort::Path& path,
                                        auto serve) {
    PathState state;
    while ((state = port.PreparePath(path)) == PathState::kPending) serve();
    return state;
  }
  // Sends a datagram as from a process that knows no Ethernet address. Its first byte is `value`.
  static bool SendDatagram(FabricPort& from, Route route, uint8_t value) {
    const std::span<uint8_t> room = from.AcquireTransmit(route);
    if (room.empty()) return false;
    constexpr uint8_t kUdSendOnly = 0x64;
    const transport::Flow flow = {.source = transport::Gid::FromIpv4({10, 0, 0, 1}),
                                  .destination = transport::Gid::FromIpv4({10, 0, 0, 2}),
                                  .destination_mac = {value}};
    constexpr size_t kPacketBytes = 38;
    uint8_t* const bth = EmitNetworkHeaders(flow, 0, kPacketBytes, room.data());
    std::fill_n(bth, kPacketBytes, uint8_t{0});
    *bth = kUdSendOnly;
    from.CommitTransmit(static_cast<size_t>(bth + kPacketBytes - room.data()));
    from.Flush();
    return true;
  }
  struct Taken {
    int value = -1;  // none
    Route from = Route::kWire;
    transport::IcrcUse icrc = transport::IcrcUse::kWaived;
    bool operator==(const Taken&) const = default;
  };
  // The first byte of the next frame, if there is one.
  static Taken TakeAtOnce(FabricPort& port) {
    const PacketPort::ReceivedFrame frame = port.Receive();
    if (frame.bytes.empty()) return {};
    const Taken taken = {frame.bytes[0], frame.from, frame.icrc};
    port.ReleaseReceived();
    return taken;
  }
  // The same, with enough passes to look at every link, including idle ones.
  static Taken Take(FabricPort& port) {
    for (int pass = 0; pass < 20; ++pass) {
      port.BeginReceiveBurst();
      if (const Taken taken = TakeAtOnce(port); taken.value >= 0) return taken;
      port.Flush();
    }
    return {};
  }
  static int TakeByte(FabricPort& port) { return Take(port).value; }
  // Waits until unused links are idle.
  template <class... Port>
  void LetLinksGetIdle(Port&... ports) {
    usleep(15'000);
    ServeAll(ports...);
  }

  transport::IcrcUse icrc_ = transport::IcrcUse::kWaived;  // of ports that are made next
  const control::Welcome like_;
  const std::string fabric_ = UniqueFabricName();
  const UniqueFd published_state_{memfd_create("test", MFD_CLOEXEC)};
  std::unique_ptr<FakeUroced> uroced_;
};

}  // namespace uroce::nic
