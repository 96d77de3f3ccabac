// Any bytes can be put into the ring of an uplink, or arrive from the wire. The first byte of the
// input says where the frame comes from; the rest is the frame, once as it is and once with its
// checksums made right. An independent parser checks every frame that comes out: the wire gets only
// frames that the sending process declared, in its own name; a process gets only frames that are
// for it; a frame leaves unchanged; and each frame is counted once or answered.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tests/dpdk_nic/switch/forwarder_rig.h"
#include "tests/fuzz/require.h"
#include "tests/fuzz/seal_frame.h"

namespace uroce::nic {
namespace {

using control::Block;
using transport::Gid;
using transport::Load16;
using transport::Load32;
using transport::Load64;

constexpr size_t kMaxFuzzedBytes = 6'000;  // longer than any frame, shorter than the room in a ring
constexpr uint64_t kAliceService = 0x1122'3344'5566'7788;
constexpr uint64_t kBobService = 0x0106'1d2f;
constexpr Block kProcesses[] = {kAlice, kBob};
constexpr uint8_t kPeerQueryClass = 0x3c;
constexpr uint8_t kGet = 0x01;
constexpr uint8_t kGetResponse = 0x81;

// The remote queue pairs that Alice is connected to.
constexpr std::pair<Gid, uint32_t> kAliceDeclared[] = {{kFarIpv4, 42}, {kFarIpv6, 0xabcdef}};

// The fields of a frame that the switch forwarded.
class View {
 public:
  explicit View(const FrameBytes& frame) : frame_(frame), is_ipv6_(Load16(at(12)) == 0x86dd) {
    UROCE_REQUIRE(is_ipv6_ || Load16(at(12)) == 0x0800);
    UROCE_REQUIRE(frame.size() >= bth_at() + 16);
    UROCE_REQUIRE(*at(is_ipv6_ ? 20 : 23) == 17);
    UROCE_REQUIRE(Load16(at(bth_at() - 6)) == 4791);
    if (!is_ipv6_) UROCE_REQUIRE((Load16(at(20)) & 0x3fff) == 0);  // no fragment
  }
  bool SourceIs(const Gid& gid) const { return GidAt(is_ipv6_ ? 22 : 26) == gid; }
  Gid destination() const { return GidAt(is_ipv6_ ? 38 : 30); }
  uint8_t service() const { return *at(bth_at()) >> 5; }
  uint32_t destination_qpn() const { return Load32(at(bth_at() + 4)) & 0xff'ffff; }
  uint32_t source_qpn() const { return Load32(at(bth_at() + 16)) & 0xff'ffff; }
  const uint8_t* mad() const { return at(bth_at() + 20); }
  // The offset after the ICRC, if the lengths are right.
  size_t udp_end() const { return bth_at() - 8 + Load16(at(bth_at() - 4)); }

 private:
  const uint8_t* at(size_t offset) const {
    UROCE_REQUIRE(offset + 8 <= frame_.size());
    return &frame_[offset];
  }
  size_t bth_at() const { return is_ipv6_ ? 62 : 42; }
  Gid GidAt(size_t offset) const {
    Gid gid = Gid::FromIpv4({});
    if (is_ipv6_) {
      std::copy_n(at(offset), 16, gid.bytes.begin());
    } else {
      std::copy_n(at(offset), 4, gid.bytes.begin() + 12);
    }
    return gid;
  }

  const FrameBytes& frame_;
  const bool is_ipv6_;
};

Block BlockOfQpn(const uint8_t* bytes) { return Load32(bytes) / transport::kMaxQps; }

bool IsOurs(const Gid& gid) { return gid == kOurIpv4 || gid == kOurIpv6; }

// One forwarder for all inputs: an input changes only its counters.
class Host {
 public:
  explicit Host(bool has_wire) : rig_({.has_wire = has_wire}), has_wire_(has_wire) {
    ForwardingTable& table = rig_.forwarder.table();
    uint32_t local = 0;
    for (const auto& [gid, qpn] : kAliceDeclared) {
      UROCE_REQUIRE(table.Declare(kAlice, {QpOf(kAlice, ++local), {qpn}, gid}) == 0);
    }
    UROCE_REQUIRE(table.Declare(kBob, {QpOf(kBob, 1), {43}, kFarIpv4}) == 0);
    UROCE_REQUIRE(table.JoinGroup(kAlice, kGroup) == 0);
    for (const Gid& group : {kGroup, kIpv6Group}) UROCE_REQUIRE(table.JoinGroup(kBob, group) == 0);
    UROCE_REQUIRE(table.services().Add(kAlice, ListenTo(kAliceService)) == 0);
    UROCE_REQUIRE(table.services().Add(kBob, ListenTo(kBobService)) == 0);
    for (const Block block : kProcesses) rig_.Process(block);
  }

  void SendFromAlice(const FrameBytes& frame) {
    const uint64_t before = Counted();
    const uint64_t copies_before = rig_.counters().multicast_copies;
    UROCE_REQUIRE(rig_.Process(kAlice).Send(frame));
    RunUntilNothingIsHeld();
    const std::vector<FrameBytes> sent = rig_.cable->TakeSent();
    std::vector<FrameBytes> copies = rig_.Process(kBob).Receive();
    UROCE_REQUIRE(sent.size() <= 1 && copies.size() <= 1);
    const std::vector<FrameBytes> returned = rig_.Process(kAlice).Receive();
    UROCE_REQUIRE(returned.size() <= 1);
    for (const FrameBytes& out : returned) {
      const View view(out);  // a request to Alice's own listener, or a refusal of her request
      UROCE_REQUIRE(view.destination_qpn() == 1 && view.source_qpn() == 1);
    }
    // A REP or DREQ to a process that is gone is answered, and not counted.
    const bool is_answered = Counted() == before && returned.size() == 1;
    if (has_wire_) UROCE_REQUIRE(Counted() == before + 1 || is_answered);
    if (!copies.empty() && !View(copies[0]).destination().IsMulticast()) {
      CheckToOtherProcess(copies[0]);
      UROCE_REQUIRE(copies[0] == frame);
      copies.clear();
    }
    UROCE_REQUIRE(rig_.counters().multicast_copies == copies_before + copies.size());
    for (const FrameBytes& out : sent) {
      UROCE_REQUIRE(out == frame);
      CheckFromAlice(out);
    }
    for (const FrameBytes& out : copies) {
      UROCE_REQUIRE(out == frame);
      const View view(out);
      UROCE_REQUIRE(view.destination() == kGroup || view.destination() == kIpv6Group);
      UROCE_REQUIRE(view.service() == 3 && view.source_qpn() / transport::kMaxQps == kAlice);
    }
  }

  void SendFromWire(const FrameBytes& frame) {
    if (!has_wire_ || frame.empty()) return;
    rig_.cable->Deliver(frame);
    RunUntilNothingIsHeld();
    const std::vector<FrameBytes> refusals = rig_.cable->TakeSent();
    UROCE_REQUIRE(refusals.size() <= 1);
    for (const FrameBytes& out : refusals) {
      const View view(out);
      UROCE_REQUIRE(view.source_qpn() == 1);
      const uint8_t* mad = view.mad();  // of the connection manager, or the answer to a query
      UROCE_REQUIRE(mad[1] == 7 || (mad[1] == kPeerQueryClass && mad[3] == kGetResponse));
      UROCE_REQUIRE(mad[1] == 7 || out.size() == View(frame).udp_end());
    }
    rig_.neighborhood->received.clear();
    for (const Block block : kProcesses) {
      for (const FrameBytes& out : rig_.Process(block).Receive()) {
        // A frame of management is cut after its packet.
        const bool is_cut =
            View(frame).destination_qpn() == 1 && View(frame).udp_end() == out.size();
        UROCE_REQUIRE(out == frame ||
                      (is_cut && std::equal(out.begin(), out.end(), frame.begin())));
        CheckToProcess(block, out);
      }
    }
  }

 private:
  void RunUntilNothingIsHeld() {
    rig_.RunOnce(transport::Milliseconds(1));  // an uplink that sleeps is found by its socket
    rig_.Run();
    rig_.RunOnce(ConnectionRequests::kHoldFor);
    rig_.Run();
  }

  uint64_t Counted() const {
    const control::SwitchCounters& counters = rig_.counters();
    return counters.frames_to_wire + counters.frames_between_processes +
           counters.dropped_unknown_destination + counters.dropped_not_declared +
           counters.dropped_foreign_source + counters.dropped_malformed + counters.dropped_no_room;
  }

  static void CheckFromAlice(const FrameBytes& frame) {
    const View view(frame);
    UROCE_REQUIRE(std::equal(kOurMac.begin(), kOurMac.end(), &frame[6]));
    UROCE_REQUIRE(view.SourceIs(kOurIpv4) || view.SourceIs(kOurIpv6));
    UROCE_REQUIRE(view.udp_end() == frame.size());
    const Gid destination = view.destination();
    const uint32_t qpn = view.destination_qpn();
    UROCE_REQUIRE(!IsOurs(destination));
    UROCE_REQUIRE(((frame[0] & 1) != 0) == destination.IsMulticast());
    if (view.service() != 3) {
      UROCE_REQUIRE(view.service() <= 1 || view.service() == 5);  // RC, UC, XRC
      UROCE_REQUIRE(std::count(std::begin(kAliceDeclared), std::end(kAliceDeclared),
                               std::pair(destination, qpn)) == 1);
      return;
    }
    UROCE_REQUIRE(!destination.IsMulticast() || qpn == 0xff'ffff);
    if (qpn != 1) {
      UROCE_REQUIRE(qpn != 0 && view.source_qpn() / transport::kMaxQps == kAlice);
      return;
    }
    const uint8_t* mad = view.mad();
    UROCE_REQUIRE(view.source_qpn() == 1);
    if (mad[1] == kPeerQueryClass) {
      constexpr uint8_t kRuns = 3;
      const bool asks = mad[3] == kGet && Load64(mad + 8) >> 54 == kAlice;
      const bool tells_of_itself =
          mad[3] == kGetResponse && mad[40] == kRuns && BlockOfQpn(mad + 20) == kAlice;
      UROCE_REQUIRE(asks || tells_of_itself);
      return;
    }
    UROCE_REQUIRE(mad[1] == 7);
    if (Load16(mad + 16) == 0x18) {
      UROCE_REQUIRE(Load64(mad + 36) == kAliceService);
    } else {
      UROCE_REQUIRE(Load32(mad + 24) >> 22 == kAlice);
    }
  }

  // From Alice to Bob.
  static void CheckToOtherProcess(const FrameBytes& frame) {
    const View view(frame);
    UROCE_REQUIRE(view.service() == 3);
    if (view.destination_qpn() != 1) {
      UROCE_REQUIRE(view.source_qpn() / transport::kMaxQps == kAlice);
      UROCE_REQUIRE(view.destination_qpn() / transport::kMaxQps == kBob);
      return;
    }
    CheckReceiverOfManagement(kBob, view);
  }

  static void CheckReceiverOfManagement(Block block, const View& view) {
    const uint8_t* mad = view.mad();
    if (mad[1] == kPeerQueryClass) {
      const bool is_answer = mad[3] == kGetResponse && Load64(mad + 8) >> 54 == block;
      UROCE_REQUIRE(is_answer || (mad[3] == kGet && BlockOfQpn(mad + 20) == block));
      return;
    }
    const uint16_t attribute = Load16(mad + 16);
    if (attribute == 0x10 || attribute == 0x17) {
      UROCE_REQUIRE(Load64(mad + 32) == (block == kAlice ? kAliceService : kBobService));
      return;
    }
    const uint32_t recipient = Load32(mad + (attribute == 0x18 ? 24 : 28));
    UROCE_REQUIRE(recipient >> 22 == block || recipient >> 22 == 0);  // 0: as its request went
  }

  static void CheckToProcess(Block block, const FrameBytes& frame) {
    const View view(frame);
    const Gid destination = view.destination();
    UROCE_REQUIRE(!view.SourceIs(kOurIpv4) && !view.SourceIs(kOurIpv6));
    if (destination.IsMulticast()) {
      const bool is_member = destination == kGroup || (block == kBob && destination == kIpv6Group);
      UROCE_REQUIRE(is_member && view.destination_qpn() == 0xff'ffff);
      return;
    }
    UROCE_REQUIRE(IsOurs(destination));
    if (view.destination_qpn() != 1) {
      UROCE_REQUIRE(view.destination_qpn() / transport::kMaxQps == block);
      return;
    }
    CheckReceiverOfManagement(block, view);
  }

  ForwarderRig rig_;
  const bool has_wire_;
};

enum Direction : uint8_t { kFromAlice, kFromAliceWithoutWire, kFromWire, kDirections };

void Send(Direction direction, const FrameBytes& frame) {
  static Host with_wire(true);
  static Host without_wire(false);
  switch (direction) {
    case kFromAlice:
      return with_wire.SendFromAlice(frame);
    case kFromAliceWithoutWire:
      return without_wire.SendFromAlice(frame);
    default:
      return with_wire.SendFromWire(frame);
  }
}

}  // namespace
}  // namespace uroce::nic

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using uroce::nic::Direction;
  if (size < 2 || size > uroce::nic::kMaxFuzzedBytes) return 0;
  const auto direction = static_cast<Direction>(data[0] % uroce::nic::kDirections);
  std::vector<uint8_t> frame(data + 1, data + size);
  uroce::nic::Send(direction, frame);
  uroce::transport::SealFrame(frame);
  uroce::nic::Send(direction, frame);
  return 0;
}
