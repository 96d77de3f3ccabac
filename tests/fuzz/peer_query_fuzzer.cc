// Any MAD can arrive at queue pair 1. Checks that a query, an answer or a refusal that is accepted
// is emitted as it was parsed, that queue pair 1 sends nothing but one answer to a query, as long
// as the query, and that a peer that was asked is believed only if it returned the transaction id.
// The first byte of the input says whether the rest gets a right header, and whether it gets the
// transaction id.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "tests/fuzz/require.h"
#include "transport/general_services.h"
#include "transport/mad_frame.h"
#include "transport/peers/peer_query.h"
#include "transport/wire/byte_order.h"
#include "transport/wire/frame_builder.h"
#include "transport/wire/frame_parser.h"

namespace uroce::transport {
namespace {

constexpr MacAddress kOurMac = {2, 0, 0, 0, 0, 1};
constexpr MacAddress kPeerMac = {2, 0, 0, 0, 0, 2};
constexpr Gid kOurGid = Gid::FromIpv4({10, 0, 0, 1});
constexpr Gid kPeerGid = Gid::FromIpv4({10, 0, 0, 2});
constexpr Time kNow{1'000};

void CheckCodec(const MadBytes& mad) {
  const auto query = ParsePeerQuery(mad.data());
  if (!query) return;
  UROCE_REQUIRE(IsOfPeerQueryClass(mad.data()));
  UROCE_REQUIRE(ParsePeerQuery(EmitPeerQuery(*query).data()) == query);
  UROCE_REQUIRE(query->qpn.value <= kMaxQpn);
}

// An endpoint's part for an input. The rest of it is large, and no input changes it.
struct Surroundings {
  const EndpointConfig config{.mac = kOurMac, .gids = {kOurGid}, .qpn_count = 1};
  const std::unique_ptr<EndpointState> state = std::make_unique<EndpointState>();
  TransmitSchedule transmits;
  DeadlineQueue deadlines;
};

class Host {
 public:
  explicit Host(Surroundings& surroundings)
      : surroundings_(surroundings),
        queue_pair_one_(surroundings.config, *surroundings.state, surroundings.transmits,
                        surroundings.deadlines) {
    peers().Ask({.destination_gid = kPeerGid, .destination_mac = kPeerMac});
  }

  MadBytes TakeQuery() {
    surroundings_.deadlines.RunDue(kNow);
    const auto mad = Take();
    UROCE_REQUIRE(mad.has_value());
    return *mad;
  }
  // The MAD in the next frame.
  std::optional<MadBytes> Take() {
    std::array<uint8_t, kMaxFrameBytes> frame;
    const size_t bytes = surroundings_.transmits.BuildFrame(kNow, Route::kWire, frame);
    if (bytes == 0) return std::nullopt;
    Packet packet;
    UROCE_REQUIRE(ParseFrame(std::span(frame).first(bytes), packet) == DropReason::kNone);
    UROCE_REQUIRE(packet.flow.destination == kPeerGid && packet.payload.size() == kMadBytes);
    MadBytes mad;
    std::copy(packet.payload.begin(), packet.payload.end(), mad.begin());
    return mad;
  }
  void Receive(const MadBytes& mad) {
    std::array<uint8_t, kMaxFrameBytes> frame;
    const cm::MadAddress to{.path = {.destination_gid = kOurGid, .destination_mac = kOurMac}};
    const size_t bytes = EmitMadFrame(kPeerMac, kPeerGid, to, mad, Psn(0), frame);
    Packet packet;
    UROCE_REQUIRE(ParseFrame(std::span(frame).first(bytes), packet) == DropReason::kNone);
    queue_pair_one_.OnPacket(kNow, packet);
  }
  PeerTable& peers() { return queue_pair_one_.peers(); }

 private:
  Surroundings& surroundings_;
  QueuePairOne queue_pair_one_;
};

}  // namespace
}  // namespace uroce::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace uroce::transport;
  if (size == 0) return 0;
  static Surroundings surroundings;
  Host host(surroundings);
  const MadBytes asked = host.TakeQuery();
  UROCE_REQUIRE(!host.Take());
  MadBytes mad{};
  std::copy_n(data + 1, std::min(size - 1, kMadBytes), mad.begin());
  if ((data[0] & 1) != 0) {
    const MadBytes right = EmitPeerQuery({});
    for (const size_t i : {0, 1, 2, 16, 17, 20, 37, 38, 39}) mad[i] = right[i];
  }
  if ((data[0] & 2) != 0) std::copy_n(asked.begin() + 8, 8, mad.begin() + 8);
  CheckCodec(mad);
  host.Receive(mad);
  const auto parsed = ParsePeerQuery(mad.data());
  const auto answer = host.Take();
  const bool is_query = parsed && parsed->kind == PeerQuery::Kind::kQuery;
  if (IsOfPeerQueryClass(mad.data())) UROCE_REQUIRE(answer.has_value() == is_query);
  if (is_query) {
    const auto told = ParsePeerQuery(answer->data());
    UROCE_REQUIRE(told && *told == parsed->Answer(kOwnFeatures, told->process));
    UROCE_REQUIRE((told->process == PeerQuery::Process::kNotTold) == !parsed->IsAboutProcess());
    UROCE_REQUIRE(!host.Take());
  }
  const bool is_answer = parsed && parsed->kind == PeerQuery::Kind::kAnswer &&
                         !parsed->IsAboutProcess() &&
                         parsed->transaction_id == Load64(asked.data() + 8);
  UROCE_REQUIRE(host.peers().Speaks(kPeerGid, PeerFeature::kSelectiveAcks) ==
                (is_answer && Has(parsed->features, PeerFeature::kSelectiveAcks)));
  return 0;
}
