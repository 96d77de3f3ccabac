#include "transport/peers/peer_query.h"

#include "transport/wire/byte_order.h"

namespace uroce::transport {
namespace {

constexpr size_t kOuiOffset = 36;
constexpr size_t kAnswerOffset = 40;
static_assert(kAnswerOffset + 4 == PeerQuery::kParsedBytes);

}  // namespace

bool IsOfPeerQueryClass(const uint8_t* mad) {
  return ParseMadHeader(mad).management_class == PeerQuery::kClass &&
         Low24(Load32(mad + kOuiOffset)) == PeerQuery::kOui;
}

std::optional<PeerQuery> ParsePeerQuery(const uint8_t* mad) {
  const MadHeader header = ParseMadHeader(mad);
  const bool is_known = IsOfPeerQueryClass(mad) && header.base_version == kMadBaseVersion &&
                        header.class_version == PeerQuery::kClassVersion &&
                        header.attribute_id == PeerQuery::kAttribute;
  if (!is_known || header.attribute_modifier > kMaxQpn) return std::nullopt;
  PeerQuery query{.transaction_id = header.transaction_id, .qpn = {header.attribute_modifier}};
  if (header.method == PeerQuery::kGet) return query;
  if (header.method != PeerQuery::kGetResponse) return std::nullopt;
  if (header.status != 0) {
    query.kind = PeerQuery::Kind::kRefusal;
    return query;
  }
  const uint32_t word = Load32(mad + kAnswerOffset);
  const uint8_t process = HighByte(word);
  constexpr auto kLast = static_cast<uint8_t>(PeerQuery::Process::kRuns);
  return query.Answer(Low24(word), process <= kLast ? static_cast<PeerQuery::Process>(process)
                                                    : PeerQuery::Process::kNotTold);
}

MadBytes EmitPeerQuery(const PeerQuery& query) {
  using Kind = PeerQuery::Kind;
  constexpr uint16_t kUnsupported = 3 << 2;  // status: method or attribute not supported
  MadBytes mad{};
  EmitMadHeader({.management_class = PeerQuery::kClass,
                 .class_version = PeerQuery::kClassVersion,
                 .method = query.kind == Kind::kQuery ? PeerQuery::kGet : PeerQuery::kGetResponse,
                 .status = query.kind == Kind::kRefusal ? kUnsupported : uint16_t{0},
                 .transaction_id = query.transaction_id,
                 .attribute_id = PeerQuery::kAttribute,
                 .attribute_modifier = query.qpn.value},
                mad.data());
  Store32(PeerQuery::kOui, mad.data() + kOuiOffset);
  Store32(Word(static_cast<uint8_t>(query.process), query.features), mad.data() + kAnswerOffset);
  return mad;
}

}  // namespace uroce::transport
