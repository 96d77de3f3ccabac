// A bare frame has the same effect as a whole frame with the same transport headers and payload.

#include "transport/wire/bare_frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/transport/connected_pair.h"
#include "transport/wire/byte_order.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/ipv6.h"
#include "transport/wire/reth.h"
#include "transport/wire/udp.h"

namespace uroce::transport {
namespace {

using Frame = std::vector<uint8_t>;

constexpr uint8_t kGidIndex = 0;  // an IPv6 GID: IPv6 has no header checksum
constexpr uint32_t kBytes = 61;
constexpr uint32_t kMtuBytes = 256;
constexpr uint32_t kThreePackets = 2 * kMtuBytes + kBytes;

// A frame of a message of `length` bytes: the one behind `index` others.
struct Kind {
  const char* name;
  SendOpcode opcode;
  uint32_t length = kBytes;
  int index = 0;
  bool is_response = false;

  bool has_address() const {
    return opcode == SendOpcode::kRdmaWrite && !is_response && index == 0;
  }
};

constexpr Kind kKinds[] = {
    {"Send", SendOpcode::kSend},
    {"SendFirst", SendOpcode::kSend, kThreePackets},
    {"SendMiddle", SendOpcode::kSend, kThreePackets, 1},
    {"SendLast", SendOpcode::kSend, kThreePackets, 2},
    {"Write", SendOpcode::kRdmaWrite},
    {"WriteFirst", SendOpcode::kRdmaWrite, kThreePackets},
    {"WriteMiddle", SendOpcode::kRdmaWrite, kThreePackets, 1},
    {"WriteLast", SendOpcode::kRdmaWrite, kThreePackets, 2},
    {"Acknowledge", SendOpcode::kRdmaWrite, kBytes, 0, true},
    {"Read", SendOpcode::kRdmaRead, kBytes, 0, true},
    {"ReadFirst", SendOpcode::kRdmaRead, kThreePackets, 0, true},
    {"ReadMiddle", SendOpcode::kRdmaRead, kThreePackets, 1, true},
    {"ReadLast", SendOpcode::kRdmaRead, kThreePackets, 2, true},
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

// A whole frame from one host to the other: network headers, `transport`, and an ICRC.
Frame MakeWhole(const TestHost& from, const TestHost& to, std::span<const uint8_t> transport) {
  constexpr size_t kIpAt = EthernetHeader::kBytes;
  constexpr size_t kUdpAt = kIpAt + Ipv6Header::kBytes;
  AddressVector address;
  address.destination_gid = to.endpoint.config().gids[kGidIndex];
  address.destination_mac = to.endpoint.config().mac;
  const FrameBuilder builder(from.endpoint.config().mac, from.endpoint.config().gids[kGidIndex],
                             address, 0xc000);
  Frame whole(kMaxFrameBytes);
  EXPECT_NE(builder.Emit(PacketHeaders(), PayloadPiece(), FrameRoom(whole, IcrcUse::kWaived)), 0u);
  whole.resize(kUdpAt + UdpHeader::kBytes);
  whole.insert(whole.end(), transport.begin(), transport.end());
  whole.resize(whole.size() + kIcrcBytes);
  const auto udp_bytes = static_cast<uint16_t>(whole.size() - kUdpAt);
  Store16(udp_bytes, &whole[kIpAt + 4]);
  Store16(udp_bytes, &whole[kUdpAt + 4]);
  return whole;
}

// Two hosts, and the bare frame of `kind` that one of them has just sent.
class SentFrame {
 public:
  explicit SentFrame(const Kind& kind) : reads_(kind.opcode == SendOpcode::kRdmaRead) {
    pair_.icrc = IcrcUse::kWaivedWithHeaders;
    for (size_t i = 0; i < kThreePackets; ++i) client().memory[i] = static_cast<uint8_t>(i + 1);
    pair_.PostReceive(64);
    pair_.PostReceive(kind.opcode == SendOpcode::kSend ? kind.length + 3 : 64);
    // The first SEND has no credit, so it is not a plain one.
    EXPECT_EQ(client().qp->PostSend(pair_.Request(SendOpcode::kSend, 0)), Status::kOk);
    pair_.Exchange();
    EXPECT_EQ(server().Poll().size(), 1u);
    EXPECT_EQ(client().Poll().size(), 1u);
    EXPECT_EQ(client().qp->PostSend(pair_.Request(kind.opcode, kind.length)), Status::kOk);
    if (kind.is_response) {
      pair_.Move(client().endpoint, server().endpoint);
      std::swap(from_, to_);
    }
    for (int i = 0; i < kind.index; ++i) {
      EXPECT_EQ(
          to_->endpoint.OnFrame(pair_.now, Take(*from_), Route::kWire, IcrcUse::kWaivedWithHeaders),
          DropReason::kNone);
    }
    frame = Take(*from_);
    EXPECT_TRUE(IsBareFrame(frame));
  }

  // Describes the effects of the frame.
  std::string Deliver(bool as_whole) {
    std::ostringstream text;
    if (as_whole) frame = MakeWhole(*from_, *to_, std::span(frame).subspan(BareFrame::kMarkBytes));
    const IcrcUse check = as_whole ? IcrcUse::kWaived : IcrcUse::kWaivedWithHeaders;
    const DropReason reason = to_->endpoint.OnFrame(pair_.now, frame, Route::kWire, check);
    text << "drop reason " << static_cast<int>(reason) << ", counted "
         << to_->endpoint.counters().drops(reason);
    const QpAttributes attributes = to_->qp->Query();
    text << "; state " << static_cast<int>(attributes.state) << ", PSNs "
         << attributes.rq_psn.value() << ' ' << attributes.sq_psn.value();
    for (const Completion& completion : to_->Poll()) {
      text << "; completion " << completion.wr_id << ' ' << static_cast<int>(completion.status)
           << ' ' << completion.byte_length;
    }
    text << "; memory ";
    for (const size_t at : {0, 4096}) {
      const auto begin = to_->memory.begin() + static_cast<std::ptrdiff_t>(at);
      text.write(reinterpret_cast<const char*>(&*begin), 128);
    }
    text << "; reply ";
    Frame reply = Take(*to_);
    // A READ that is asked for again has an address, which is another one in each pair.
    if (reads_ && reply.size() > kAddressAt + 8) std::fill_n(&reply[kAddressAt], 8, 0);
    for (const uint8_t byte : reply) text << int{byte} << ' ';
    return text.str();
  }

  Frame frame;

 private:
  static constexpr size_t kAddressAt = BareFrame::kHeaderBytes;

  TestHost& client() { return pair_.client; }
  TestHost& server() { return pair_.server; }
  Frame Take(TestHost& host) {
    Frame taken(kMaxFrameBytes);
    taken.resize(host.endpoint.PollTransmit(pair_.now, Route::kWire,
                                            FrameRoom(taken, IcrcUse::kWaivedWithHeaders)));
    return taken;
  }

  const bool reads_;
  ConnectedPair pair_{kGidIndex, Mtu::k256};
  TestHost* from_ = &client();
  TestHost* to_ = &server();
};

template <class Change>
void ExpectSame(const Kind& kind, const std::string& what, Change change) {
  SentFrame bare(kind);
  SentFrame whole(kind);
  change(bare.frame);
  change(whole.frame);
  EXPECT_EQ(bare.Deliver(/*as_whole=*/false), whole.Deliver(/*as_whole=*/true)) << what;
}

class BareFrameTest : public testing::TestWithParam<Kind> {};

TEST_P(BareFrameTest, AsItWasSent) {
  ExpectSame(GetParam(), "unchanged", [](Frame&) {});
}

// Except for the version and the P_Key, which need not be right in a bare frame, and for the
// address of a WRITE, which differs between the two pairs.
TEST_P(BareFrameTest, EveryBit) {
  constexpr size_t kBthAt = BareFrame::kMarkBytes;
  constexpr size_t kHeadersAndALittle = BareFrame::kHeaderBytes + Reth::kBytes + 4;
  const size_t bytes = std::min(SentFrame(GetParam()).frame.size(), kHeadersAndALittle);
  for (size_t byte = kBthAt; byte < bytes; ++byte) {
    const bool is_partition = byte == kBthAt + 2 || byte == kBthAt + 3;
    const bool is_address = GetParam().has_address() && byte >= BareFrame::kHeaderBytes &&
                            byte < BareFrame::kHeaderBytes + 8;
    if (is_partition || is_address) continue;
    for (int bit = 0; bit < 8; ++bit) {
      if (byte == kBthAt + 1 && bit < 4) continue;  // the version
      ExpectSame(GetParam(), "bit " + std::to_string(8 * byte + static_cast<size_t>(bit)),
                 [&](Frame& frame) { frame[byte] ^= static_cast<uint8_t>(1 << bit); });
    }
  }
}

TEST_P(BareFrameTest, EveryLength) {
  constexpr size_t kEnd = 8;
  constexpr size_t kBeginning = BareFrame::kHeaderBytes + Reth::kBytes + kEnd;
  const size_t bytes = SentFrame(GetParam()).frame.size();
  for (size_t left = BareFrame::kHeaderBytes; left <= bytes + kEnd; ++left) {
    if (left > kBeginning && left + kEnd < bytes) continue;  // all alike
    ExpectSame(GetParam(), std::to_string(left) + " bytes", [&](Frame& frame) {
      frame.resize(left);
      frame.shrink_to_fit();  // so that ASan sees a read past the end
    });
  }
}

TEST_P(BareFrameTest, EveryOpcode) {
  // The services of all opcodes are tried with messages of one packet.
  const int codes = GetParam().length == kBytes ? 256 : 32;
  for (int code = 0; code < codes; ++code) {
    ExpectSame(GetParam(), "opcode " + std::to_string(code),
               [&](Frame& frame) { frame[BareFrame::kMarkBytes] = static_cast<uint8_t>(code); });
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, BareFrameTest, testing::ValuesIn(kKinds),
                         [](const auto& kind) { return kind.param.name; });

class BareFrameRouteTest : public testing::Test, protected ConnectedPair {
 protected:
  void SetUp() override {
    ASSERT_EQ(client.qp->PostSend(Request(SendOpcode::kRdmaWrite, kBytes)), Status::kOk);
    bytes_ = client.endpoint.PollTransmit(now, Route::kWire,
                                          FrameRoom(frame, IcrcUse::kWaivedWithHeaders));
  }
  DropReason Receive(Route route, IcrcUse check) {
    return server.endpoint.OnFrame(now, std::span(frame).first(bytes_), route, check);
  }

  size_t bytes_ = 0;
};

TEST_F(BareFrameRouteTest, BareFramesFromOtherRoutesAreDropped) {
  for (const Route route : {Route::kLoopback, RouteToBlock(0), RouteToBlock(5)}) {
    EXPECT_EQ(Receive(route, IcrcUse::kWaivedWithHeaders), DropReason::kForeignSource);
  }
  EXPECT_EQ(server.endpoint.counters().drops(DropReason::kForeignSource), 3u);
  EXPECT_EQ(server.qp->counters().received_packets, 0u);
  EXPECT_EQ(Receive(Route::kWire, IcrcUse::kWaivedWithHeaders), DropReason::kNone);
}

// Other ports take them for Ethernet frames of an unknown protocol.
TEST_F(BareFrameRouteTest, AreNotRoceWhereHeadersAreNotWaived) {
  for (const IcrcUse check : {IcrcUse::kCarried, IcrcUse::kWaived}) {
    EXPECT_EQ(Receive(Route::kWire, check), DropReason::kNotIp);
  }
}

TEST_F(BareFrameRouteTest, LayoutIsTheOneOfTheComment) {
  ASSERT_EQ(bytes_, BareFrame::kMarkBytes + Bth::kBytes + Reth::kBytes + 64);
  EXPECT_EQ(Load32(frame.data()), BareFrame::kMark);
  const Frame whole = [&] {
    ConnectedPair other;
    EXPECT_EQ(other.client.qp->PostSend(other.Request(SendOpcode::kRdmaWrite, kBytes)),
              Status::kOk);
    Frame sent(kMaxFrameBytes);
    sent.resize(other.client.endpoint.PollTransmit(other.now, Route::kWire,
                                                   FrameRoom(sent, IcrcUse::kWaived)));
    return sent;
  }();
  constexpr size_t kWholeBthAt = 42;
  EXPECT_TRUE(std::equal(&frame[BareFrame::kMarkBytes], &frame[BareFrame::kHeaderBytes],
                         &whole[kWholeBthAt]));
  EXPECT_EQ(whole.size(), kWholeBthAt + bytes_ - BareFrame::kMarkBytes + kIcrcBytes);
}

// A bare frame has no P_Key that could be checked.
TEST(BareFramePartitionTest, IsForQueuePairsOfTheDefaultPartition) {
  ConnectedPair pair(kGidIndex);
  pair.icrc = IcrcUse::kWaivedWithHeaders;
  QpAttributes a;
  a.state = QpState::kSendQueueDrain;
  ASSERT_EQ(pair.server.qp->Modify(a, QpAttributeMask::kState), Status::kOk);
  a.pkey_index = 1;
  ASSERT_EQ(pair.server.qp->Modify(a, QpAttributeMask::kPkeyIndex), Status::kOk);
  ASSERT_EQ(pair.client.qp->PostSend(pair.Request(SendOpcode::kRdmaWrite, kBytes)), Status::kOk);
  pair.Move(pair.client.endpoint, pair.server.endpoint);
  EXPECT_TRUE(IsBareFrame(pair.frame));
  EXPECT_EQ(pair.last_drop, DropReason::kBadPkey);
  a.pkey_index = 0;
  ASSERT_EQ(pair.server.qp->Modify(a, QpAttributeMask::kPkeyIndex), Status::kOk);
  ASSERT_EQ(pair.client.qp->PostSend(pair.Request(SendOpcode::kRdmaWrite, kBytes)), Status::kOk);
  pair.Move(pair.client.endpoint, pair.server.endpoint);
  EXPECT_EQ(pair.last_drop, DropReason::kSequenceGap);
}

// A bare frame does not show the path it came by, which is how the peer learns of a migration. Both
// ends are armed, and their two paths have the same addresses.
class BareFrameMigrationTest : public testing::Test, protected ConnectedPair {
 protected:
  BareFrameMigrationTest() : ConnectedPair(kGidIndex) {}
  void SetUp() override {
    icrc = IcrcUse::kWaivedWithHeaders;
    EXPECT_TRUE(IsBareFrame(Write(client, server)));
    Exchange();
    ASSERT_EQ(Load(client, server), Status::kOk);
    ASSERT_EQ(Load(server, client), Status::kOk);
    EXPECT_FALSE(IsBareFrame(Write(client, server)));
    Exchange();
    ASSERT_EQ(client.qp->Query().migration_state, MigrationState::kArmed);
    ASSERT_EQ(server.qp->Query().migration_state, MigrationState::kArmed);
  }

  Frame Build(TestHost& from, TestHost& to) {
    const ScatterGatherEntry source = {from.address(0), kBytes, from.key};
    SendWorkRequest request = Request(SendOpcode::kRdmaWrite, kBytes);
    request.remote_address = to.address(4096);
    request.rkey = to.rkey();
    request.sges = {&source, 1};
    EXPECT_EQ(from.qp->PostSend(request), Status::kOk);
    Frame sent(kMaxFrameBytes);
    sent.resize(from.endpoint.PollTransmit(now, Route::kWire, FrameRoom(sent, icrc)));
    return sent;
  }
  void Deliver(const Frame& sent, TestHost& to) {
    EXPECT_EQ(to.endpoint.OnFrame(now, sent, Route::kWire, icrc), DropReason::kNone);
  }
  Frame Write(TestHost& from, TestHost& to) {
    Frame sent = Build(from, to);
    Deliver(sent, to);
    return sent;
  }

  static Status Load(TestHost& host, const TestHost& peer) {
    QpAttributes a;
    a.state = QpState::kReadyToSend;
    a.alternate_address = {.destination_gid = peer.endpoint.config().gids[kGidIndex],
                           .destination_mac = peer.endpoint.config().mac,
                           .source_gid_index = kGidIndex};
    a.alternate_port_num = 1;
    a.alternate_timeout = 14;
    a.migration_state = MigrationState::kRearm;
    using M = QpAttributeMask;
    return host.qp->Modify(a, M::kState | M::kAlternatePath | M::kMigrationState);
  }
  static Status Migrate(TestHost& host) {
    QpAttributes a;
    a.state = QpState::kReadyToSend;
    a.migration_state = MigrationState::kMigrated;
    return host.qp->Modify(a, QpAttributeMask::kState | QpAttributeMask::kMigrationState);
  }
};

TEST_F(BareFrameMigrationTest, FramesAreWholeUntilThePeerHasFollowed) {
  ASSERT_EQ(Migrate(client), Status::kOk);
  EXPECT_FALSE(IsBareFrame(Write(client, server)));
  EXPECT_EQ(server.qp->Query().migration_state, MigrationState::kMigrated);
  Exchange();
  EXPECT_TRUE(IsBareFrame(Write(client, server)));
}

// Both paths use the same addresses, so a frame that the armed peer sent matches the new path.
TEST_F(BareFrameMigrationTest, PeerFrameFromBeforeTheMigrationKeepsFramesWhole) {
  const Frame from_before = Build(server, client);
  ASSERT_EQ(Migrate(client), Status::kOk);
  Deliver(from_before, client);
  EXPECT_FALSE(IsBareFrame(Write(client, server)));
}

// The peer learns of the migration from an ACK, which it does not answer, and then from a request.
// After the request its frames are bare.
TEST_F(BareFrameMigrationTest, BareFrameSaysThatThePeerHasFollowed) {
  const Frame unanswered = Build(server, client);
  ASSERT_EQ(Migrate(client), Status::kOk);
  Deliver(unanswered, client);
  Move(client.endpoint, server.endpoint);
  ASSERT_EQ(server.qp->Query().migration_state, MigrationState::kMigrated);
  EXPECT_FALSE(IsBareFrame(Write(client, server)));
  Move(server.endpoint, client.endpoint);
  EXPECT_TRUE(IsBareFrame(frame));
  EXPECT_TRUE(IsBareFrame(Write(client, server)));
}

}  // namespace
}  // namespace uroce::transport
