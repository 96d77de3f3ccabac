#include "dpdk_nic/port/udp/datagram.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/udp.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "dpdk_nic/port/udp/udp_address.h"
#include "tests/dpdk_nic/port/udp/control_message.h"
#include "tests/dpdk_nic/port/udp/udp_frames.h"
#include "transport/wire/encapsulation.h"

namespace uroce::nic {
namespace {

using transport::DropReason;
using transport::Gid;

const Gid kPeer = Gid::FromIpv4({10, 0, 0, 1});
const Gid kOwn = Gid::FromIpv4({10, 0, 0, 2});

// A message as recvmmsg fills it in.
class Message {
 public:
  Message(const Gid& source, uint16_t port) : source_(SocketAddress::Make(source, port, 0)) {
    header_.msg_name = &source_.storage;
    header_.msg_control = control_;
  }
  template <class Value>
  void Add(int level, int type, Value value) {
    AddControlMessage(header_, level, type, value);
  }
  msghdr& header() { return header_; }

 private:
  SocketAddress source_;
  alignas(cmsghdr) char control_[256] = {};
  msghdr header_{};
};

class DatagramTest : public testing::Test {
 protected:
  // Appends the UDP payload of a frame.
  void Append(const std::vector<uint8_t>& frame, size_t header_bytes = 42) {
    bytes_.insert(bytes_.end(), frame.begin() + static_cast<ptrdiff_t>(header_bytes), frame.end());
  }
  void Start(size_t segment_bytes, const Gid& peer = kPeer, const Gid& own = kOwn) {
    const DatagramInfo info = {.flow = {.source = peer,
                                        .destination = own,
                                        .source_port = 0xc123,
                                        .traffic_class = 0x0a,
                                        .hop_limit = 64},
                               .segment_bytes = segment_bytes};
    run_ = DatagramRun(bytes_, info);
  }
  // The frame of the next packet.
  std::span<const uint8_t> Next() {
    packet_ = run_.Next(&peers_, &drops_);
    if (packet_ == nullptr) return {};
    const auto& [flow, bytes, identification, is_right, from, frame_bytes] = *packet_;
    frame_.resize(frame_bytes);
    const std::span packet(bytes.data(), bytes.size() + transport::kIcrcBytes);
    const auto frame = Encapsulate(*flow, identification, packet, frame_);
    EXPECT_EQ(frame.size(), frame_.size());
    return frame;
  }

  std::vector<uint8_t> bytes_;
  DatagramRun run_;
  const transport::ReceivedPacket* packet_ = nullptr;
  std::vector<uint8_t> frame_;
  PeerIdentifications peers_;
  PortDrops drops_;
};

TEST_F(DatagramTest, ReceivedFrameEqualsTheSentFrame) {
  const auto sent = WithIdentification(UdpFrameSpec{.psn = 5, .traffic_class = 0x0a}.Build(), 777);
  Append(sent);
  Start(bytes_.size());
  const auto frame = Next();
  ASSERT_EQ(frame.size(), sent.size());
  EXPECT_EQ(JudgeFrame(frame), DropReason::kNone);
  EXPECT_TRUE(packet_->is_icrc_right);
  EXPECT_EQ(packet_->identification, 777);
  EXPECT_EQ(std::vector(frame.begin() + 12, frame.end()),
            std::vector(sent.begin() + 12, sent.end()))
      << "all but the Ethernet addresses, which follow from the IP addresses";
  EXPECT_TRUE(Next().empty());
  EXPECT_EQ(drops_.total(), 0u);
}

TEST_F(DatagramTest, CoalescedFramesComeOneByOne) {
  for (uint16_t i = 0; i < 5; ++i) {
    Append(WithIdentification(UdpFrameSpec{.psn = i, .payload_bytes = i < 4 ? 1'024u : 12u}.Build(),
                              static_cast<uint16_t>(100 * i)));
  }
  Start(1'040);
  for (uint32_t i = 0; i < 5; ++i) {
    transport::Packet packet;
    const auto frame = Next();
    ASSERT_EQ(ParseFrame(frame, packet), DropReason::kNone) << i;
    EXPECT_EQ(packet.psn.value(), i);
    EXPECT_EQ(packet.payload.size(), i < 4 ? 1'024u : 12u);
  }
  EXPECT_TRUE(Next().empty());
}

TEST_F(DatagramTest, Ipv6FrameIsMadeOfIpv6) {
  const Gid peer = {{0xfd, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}};
  Gid own = peer;
  own.bytes[15] = 1;
  Append(UdpFrameSpec{.source = peer, .destination = own}.Build(), 62);
  Start(bytes_.size(), peer, own);
  transport::Packet packet;
  ASSERT_EQ(ParseFrame(Next(), packet), DropReason::kNone);
  EXPECT_TRUE(packet_->is_icrc_right);
  EXPECT_EQ(packet.flow.source, peer);
  EXPECT_EQ(packet.flow.traffic_class, 0x0a);
}

TEST_F(DatagramTest, OneWrongBitIsLeftToTheTransport) {
  const auto sent = WithIdentification(UdpFrameSpec{}.Build(), 3);
  int explained = 0;
  for (size_t bit = 42 * 8; bit < sent.size() * 8; ++bit) {
    if (bit / 8 == 46) continue;  // FECN, BECN: not covered
    auto damaged = sent;
    damaged[bit / 8] = static_cast<uint8_t>(damaged[bit / 8] ^ 1u << bit % 8);
    bytes_.clear();
    Append(damaged);
    Start(bytes_.size());
    const auto frame = Next();
    const bool is_right = JudgeFrame(frame) == DropReason::kNone;
    EXPECT_EQ(packet_->is_icrc_right, is_right) << "of bit " << bit;
    explained += is_right ? 1 : 0;
  }
  EXPECT_LE(explained, 1);
  EXPECT_GT(drops_[PortDrop::kBadIcrc], 500u);
}

TEST_F(DatagramTest, WrongSegmentSizeGivesNoValidFrame) {
  for (uint16_t i = 0; i < 3; ++i) Append(WithIdentification(UdpFrameSpec{}.Build(), i));
  Start(76);  // the frames have 80 bytes
  int frames = 0;
  for (auto frame = Next(); !frame.empty(); frame = Next(), ++frames) {
    EXPECT_NE(JudgeFrame(frame), DropReason::kNone);
  }
  EXPECT_EQ(frames, 3);
  EXPECT_EQ(drops_[PortDrop::kTooShort], 1u) << "what is left";
}

TEST_F(DatagramTest, PartsOfAnotherLengthThanAFrameAreCounted) {
  bytes_.assign(15, 0);
  Start(15);
  EXPECT_TRUE(Next().empty());
  EXPECT_EQ(drops_[PortDrop::kTooShort], 1u);
  bytes_.assign(9'000, 0);
  Start(9'000);
  EXPECT_TRUE(Next().empty());
  EXPECT_EQ(drops_[PortDrop::kTooLong], 1u);
  bytes_.assign(17, 0);  // long enough for the port: the transport refuses it
  Start(17);
  EXPECT_NE(JudgeFrame(Next()), DropReason::kNone);
}

TEST_F(DatagramTest, ControlMessagesAreRead) {
  Message message(kPeer, 49'999);
  message.Add(IPPROTO_IP, IP_TOS, uint8_t{0x0b});
  message.Add(SOL_UDP, UDP_GRO, int{1'040});
  DatagramInfo info;
  ASSERT_TRUE(ReadDatagramInfo(message.header(), 5'000, kOwn, &info, &drops_));
  EXPECT_EQ(info.flow.source, kPeer);
  EXPECT_EQ(info.flow.source_port, 49'999);
  EXPECT_EQ(info.flow.traffic_class, 0x0b);
  EXPECT_EQ(info.segment_bytes, 1'040u);
}

TEST_F(DatagramTest, MessageWithoutGroIsOneDatagram) {
  Message message(kPeer, 4'791);
  message.Add(IPPROTO_IP, IP_TOS, uint8_t{0});
  DatagramInfo info;
  ASSERT_TRUE(ReadDatagramInfo(message.header(), 80, kOwn, &info, &drops_));
  EXPECT_EQ(info.segment_bytes, 80u);
}

// A socket bound to all addresses learns the destination from the control message.
TEST_F(DatagramTest, DestinationIsThatOfTheControlMessage) {
  const Gid any = Gid::FromIpv4({});
  Message message(kPeer, 4'791);
  message.Add(IPPROTO_IP, IP_TOS, uint8_t{0});
  DatagramInfo info;
  EXPECT_FALSE(ReadDatagramInfo(message.header(), 80, any, &info, &drops_));
  EXPECT_EQ(drops_[PortDrop::kUnmarked], 1u) << "nothing tells what it came to";
  in_pktinfo to{};
  std::copy(kOwn.bytes.begin() + 12, kOwn.bytes.end(), reinterpret_cast<uint8_t*>(&to.ipi_addr));
  message.Add(IPPROTO_IP, IP_PKTINFO, to);
  ASSERT_TRUE(ReadDatagramInfo(message.header(), 80, any, &info, &drops_));
  EXPECT_EQ(info.flow.destination, kOwn);
}

TEST_F(DatagramTest, EveryReasonToDropAMessageIsCounted) {
  DatagramInfo info;
  Message bare(kPeer, 4'791);
  EXPECT_FALSE(ReadDatagramInfo(bare.header(), 80, kOwn, &info, &drops_));
  EXPECT_EQ(drops_[PortDrop::kUnmarked], 1u) << "the kernel did not say how it was marked";

  Message message(kPeer, 4'791);
  message.Add(IPPROTO_IP, IP_TOS, uint8_t{0});
  message.header().msg_flags = MSG_CTRUNC;
  EXPECT_FALSE(ReadDatagramInfo(message.header(), 80, kOwn, &info, &drops_));
  EXPECT_EQ(drops_[PortDrop::kUnmarked], 2u);
  message.header().msg_flags = MSG_TRUNC;
  EXPECT_FALSE(ReadDatagramInfo(message.header(), 80, kOwn, &info, &drops_));
  EXPECT_EQ(drops_[PortDrop::kTruncated], 1u);
  message.header().msg_flags = 0;
  EXPECT_FALSE(ReadDatagramInfo(message.header(), 80, kPeer, &info, &drops_));
  EXPECT_EQ(drops_[PortDrop::kOwnAddress], 1u);
  message.Add(SOL_UDP, UDP_GRO, int{-1});
  EXPECT_FALSE(ReadDatagramInfo(message.header(), 80, kOwn, &info, &drops_));
  EXPECT_EQ(drops_[PortDrop::kBadSegment], 1u);
  EXPECT_EQ(drops_.total(), 5u);
}

}  // namespace
}  // namespace uroce::nic
