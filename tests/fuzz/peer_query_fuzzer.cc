// Any MAD can arrive at queue pair 1. Checks that a query, an answer or a refusal that is accepted
// is emitted as it was parsed, that an endpoint sends nothing but one answer to a query, as long as
// the query, and that a peer that was asked is believed only if it returned the transaction id. The
// first byte of the input says whether the rest gets a right header, and whether it gets the
// transaction id.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tests/fuzz/require.h"
#include "transport/endpoint.h"
#include "transport/mad_frame.h"
#include "transport/peers/peer_query.h"
#include "transport/wire/byte_order.h"
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

class Host {
 public:
  Host() { endpoint_.peers().Ask({.destination_gid = kPeerGid, .destination_mac = kPeerMac}); }

  MadBytes TakeMad() {
    endpoint_.OnDeadline(kNow);
    MadBytes mad{};
    const auto payload = Take();
    UROCE_REQUIRE(payload && payload->size() == kMadBytes);
    std::copy(payload->begin(), payload->end(), mad.begin());
    return mad;
  }
  std::optional<std::vector<uint8_t>> Take() {
    std::array<uint8_t, kMaxFrameBytes> frame;
    const size_t bytes = endpoint_.PollTransmit(kNow, Route::kWire, frame);
    if (bytes == 0) return std::nullopt;
    Packet packet;
    UROCE_REQUIRE(ParseFrame(std::span(frame).first(bytes), packet) == DropReason::kNone);
    UROCE_REQUIRE(packet.flow.destination == kPeerGid);
    return std::vector<uint8_t>(packet.payload.begin(), packet.payload.end());
  }
  void Receive(const MadBytes& mad) {
    std::array<uint8_t, kMaxFrameBytes> frame;
    const cm::MadAddress to{.path = {.destination_gid = kOurGid, .destination_mac = kOurMac}};
    const size_t bytes = EmitMadFrame(kPeerMac, kPeerGid, to, mad, Psn(0), frame);
    endpoint_.OnFrame(kNow, std::span(frame).first(bytes));
  }
  bool IsPeerKnown() { return endpoint_.peers().Speaks(kPeerGid, PeerFeature::kSelectiveAcks); }

 private:
  Endpoint endpoint_{{.mac = kOurMac, .gids = {kOurGid}, .qpn_count = 1}};
};

}  // namespace
}  // namespace uroce::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace uroce::transport;
  if (size == 0) return 0;
  Host host;
  const MadBytes asked = host.TakeMad();
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
    UROCE_REQUIRE(ParsePeerQuery(answer->data()) == parsed->Answer(kOwnFeatures));
    UROCE_REQUIRE(!host.Take());
  }
  const bool is_answer = parsed && parsed->kind == PeerQuery::Kind::kAnswer &&
                         parsed->transaction_id == Load64(asked.data() + 8);
  UROCE_REQUIRE(host.IsPeerKnown() ==
                (is_answer && Has(parsed->features, PeerFeature::kSelectiveAcks)));
  return 0;
}
