// The place of each field of a message. `Fields` describes a message once, for both directions:
// at(byte, bit, width, value) is the field of `width` bits that begins `bit` bits after the most
// significant one of `byte`, which counts from the end of the MAD header as the tables of the
// specification do.
#include "transport/cm/messages.h"

#include <algorithm>
#include <concepts>
#include <cstring>
#include <type_traits>
#include <utility>

#include "transport/cm/message_codec.h"
#include "transport/wire/byte_order.h"

namespace uroce::transport::cm {
namespace {

// A field of at most 57 bits, or one of 64 that begins at a byte boundary, fits into the eight
// bytes from its first one.
uint64_t ReadBits(const uint8_t* bytes, int bit, int width) {
  uint64_t value = 0;
  const int count = (bit + width + 7) / 8;
  for (int i = 0; i < count; ++i) value = value << 8 | bytes[i];
  value >>= count * 8 - bit - width;
  return width == 64 ? value : value & ((uint64_t{1} << width) - 1);
}

void WriteBits(uint64_t value, int bit, int width, uint8_t* bytes) {
  const int count = (bit + width + 7) / 8;
  const uint64_t mask = width == 64 ? UINT64_MAX : (uint64_t{1} << width) - 1;
  uint64_t shifted = (value & mask) << (count * 8 - bit - width);
  for (int i = count - 1; i >= 0; --i, shifted >>= 8) bytes[i] |= static_cast<uint8_t>(shifted);
}

template <class T>
concept Number = std::integral<T> || std::is_enum_v<T>;

class Reader {
 public:
  explicit Reader(const uint8_t* bytes) : bytes_(bytes) {}

  template <Number T>
  void operator()(size_t byte, int bit, int width, T& value) const {
    value = static_cast<T>(ReadBits(bytes_ + byte, bit, width));
  }
  template <class Tag>
  void operator()(size_t byte, int bit, int width, Id<Tag>& id) const {
    (*this)(byte, bit, width, id.value);
  }
  void operator()(size_t byte, int bit, int width, ServiceId& id) const {
    (*this)(byte, bit, width, id.value);
  }
  void operator()(size_t byte, int bit, int width, Psn& psn) const {
    psn = Psn(static_cast<uint32_t>(ReadBits(bytes_ + byte, bit, width)));
  }
  template <size_t kCount>
  void operator()(size_t byte, std::array<uint8_t, kCount>& data) const {
    std::memcpy(data.data(), bytes_ + byte, kCount);
  }

 private:
  const uint8_t* bytes_;
};

// The bytes have to be zero before.
class Writer {
 public:
  explicit Writer(uint8_t* bytes) : bytes_(bytes) {}

  template <Number T>
  void operator()(size_t byte, int bit, int width, T value) const {
    WriteBits(static_cast<uint64_t>(value), bit, width, bytes_ + byte);
  }
  template <class Tag>
  void operator()(size_t byte, int bit, int width, Id<Tag> id) const {
    (*this)(byte, bit, width, id.value);
  }
  void operator()(size_t byte, int bit, int width, ServiceId id) const {
    (*this)(byte, bit, width, id.value);
  }
  void operator()(size_t byte, int bit, int width, Psn psn) const {
    (*this)(byte, bit, width, psn.value());
  }
  template <size_t kCount>
  void operator()(size_t byte, const std::array<uint8_t, kCount>& data) const {
    std::memcpy(bytes_ + byte, data.data(), kCount);
  }

 private:
  uint8_t* bytes_;
};

// One of the two paths of a REQ, which begins at `base`.
template <class Access, class Fields>
void ReqPath(const Access& at, size_t base, Fields& path) {
  at(base + 0, 0, 16, path.local_lid);
  at(base + 2, 0, 16, path.remote_lid);
  at(base + 4, path.local_gid.bytes);
  at(base + 20, path.remote_gid.bytes);
  at(base + 36, 0, 20, path.flow_label);
  at(base + 39, 2, 6, path.packet_rate);
  at(base + 40, 0, 8, path.traffic_class);
  at(base + 41, 0, 8, path.hop_limit);
  at(base + 42, 0, 4, path.service_level);
  at(base + 42, 4, 1, path.subnet_local);
  at(base + 43, 0, 5, path.local_ack_timeout);
}

template <class T, class Type>
concept Is = std::same_as<std::remove_const_t<T>, Type>;

template <class Access, Is<Req> T>
void Fields(const Access& at, T& req) {
  at(0, 0, 32, req.local_id);
  at(8, 0, 64, req.service_id);
  at(16, 0, 64, req.local_ca_guid);
  at(28, 0, 32, req.local_qkey);
  at(32, 0, 24, req.local_qpn);
  at(35, 0, 8, req.responder_resources);
  at(36, 0, 24, req.local_eecn);
  at(39, 0, 8, req.initiator_depth);
  at(40, 0, 24, req.remote_eecn);
  at(43, 0, 5, req.remote_cm_response_timeout);
  at(43, 5, 2, req.transport_service_type);
  at(43, 7, 1, req.end_to_end_flow_control);
  at(44, 0, 24, req.starting_psn);
  at(47, 0, 5, req.local_cm_response_timeout);
  at(47, 5, 3, req.retry_count);
  at(48, 0, 16, req.partition_key);
  at(50, 0, 4, req.path_mtu);
  at(50, 4, 1, req.rdc_exists);
  at(50, 5, 3, req.rnr_retry_count);
  at(51, 0, 4, req.max_cm_retries);
  at(51, 4, 1, req.srq);
  at(51, 5, 3, req.extended_transport_type);
  ReqPath(at, 52, req.primary);
  ReqPath(at, 96, req.alternate);
  at(139, 5, 1, req.sap_supported);
  at(140, req.private_data);
}

template <class Access, Is<Mra> T>
void Fields(const Access& at, T& mra) {
  at(0, 0, 32, mra.local_id);
  at(4, 0, 32, mra.remote_id);
  at(8, 0, 2, mra.message);
  at(9, 0, 5, mra.service_timeout);
  at(10, mra.private_data);
}

template <class Access, Is<Rej> T>
void Fields(const Access& at, T& rej) {
  at(0, 0, 32, rej.local_id);
  at(4, 0, 32, rej.remote_id);
  at(8, 0, 2, rej.message);
  at(9, 0, 7, rej.information_bytes);
  at(10, 0, 16, rej.reason);
  at(12, rej.additional_information);
  at(84, rej.private_data);
}

template <class Access, Is<Rep> T>
void Fields(const Access& at, T& rep) {
  at(0, 0, 32, rep.local_id);
  at(4, 0, 32, rep.remote_id);
  at(8, 0, 32, rep.local_qkey);
  at(12, 0, 24, rep.local_qpn);
  at(16, 0, 24, rep.local_eecn);
  at(20, 0, 24, rep.starting_psn);
  at(24, 0, 8, rep.responder_resources);
  at(25, 0, 8, rep.initiator_depth);
  at(26, 0, 5, rep.target_ack_delay);
  at(26, 5, 2, rep.failover_accepted);
  at(26, 7, 1, rep.end_to_end_flow_control);
  at(27, 0, 3, rep.rnr_retry_count);
  at(27, 3, 1, rep.srq);
  at(28, 0, 64, rep.local_ca_guid);
  at(36, rep.private_data);
}

// RTU and DREP have the same form.
template <class Access, class T>
requires Is<T, Rtu> || Is<T, Drep>
void Fields(const Access& at, T& message) {
  at(0, 0, 32, message.local_id);
  at(4, 0, 32, message.remote_id);
  at(8, message.private_data);
}

template <class Access, Is<Dreq> T>
void Fields(const Access& at, T& dreq) {
  at(0, 0, 32, dreq.local_id);
  at(4, 0, 32, dreq.remote_id);
  at(8, 0, 24, dreq.remote_qpn);
  at(12, dreq.private_data);
}

template <class Access, Is<SidrReq> T>
void Fields(const Access& at, T& request) {
  at(0, 0, 32, request.request_id);
  at(4, 0, 16, request.partition_key);
  at(8, 0, 64, request.service_id);
  at(16, request.private_data);
}

template <class Access, Is<SidrRep> T>
void Fields(const Access& at, T& reply) {
  at(0, 0, 32, reply.request_id);
  at(4, 0, 8, reply.status);
  at(5, 0, 8, reply.information_bytes);
  at(8, 0, 24, reply.qpn);
  at(12, 0, 64, reply.service_id);
  at(20, 0, 32, reply.qkey);
  at(24, reply.additional_information);
  at(96, reply.private_data);
}

template <class Access, Is<Lap> T>
void Fields(const Access& at, T& lap) {
  at(0, 0, 32, lap.local_id);
  at(4, 0, 32, lap.remote_id);
  at(12, 0, 24, lap.remote_qpn);
  at(15, 0, 5, lap.remote_cm_response_timeout);
  at(20, 0, 16, lap.alternate.local_lid);
  at(22, 0, 16, lap.alternate.remote_lid);
  at(24, lap.alternate.local_gid.bytes);
  at(40, lap.alternate.remote_gid.bytes);
  at(56, 0, 20, lap.alternate.flow_label);
  at(59, 0, 8, lap.alternate.traffic_class);
  at(60, 0, 8, lap.alternate.hop_limit);
  at(61, 2, 6, lap.alternate.packet_rate);
  at(62, 0, 4, lap.alternate.service_level);
  at(62, 4, 1, lap.alternate.subnet_local);
  at(63, 0, 5, lap.alternate.local_ack_timeout);
  at(64, lap.private_data);
}

template <class Access, Is<Apr> T>
void Fields(const Access& at, T& apr) {
  at(0, 0, 32, apr.local_id);
  at(4, 0, 32, apr.remote_id);
  at(8, 0, 8, apr.information_bytes);
  at(9, 0, 8, apr.status);
  at(12, apr.additional_information);
  at(84, apr.private_data);
}

template <size_t... kIndex>
void ParseBody(size_t index, const uint8_t* body, Message& message,
               std::index_sequence<kIndex...> /*all*/) {
  const auto parse = [&]<size_t kOne>() { Fields(Reader(body), message.emplace<kOne>()); };
  ((kIndex == index ? parse.template operator()<kIndex>() : void()), ...);
}

Malformed CheckHeader(const MadHeader& header) {
  if (header.base_version != kMadBaseVersion) return Malformed::kBadBaseVersion;
  if (header.management_class != kCommunicationManagementClass) return Malformed::kForeignClass;
  if (header.class_version != kCommunicationManagementVersion) return Malformed::kBadClassVersion;
  if (header.method != kSendMethod) return Malformed::kBadMethod;
  if (header.attribute_id < kFirstAttribute ||
      header.attribute_id >= kFirstAttribute + kAttributes) {
    return Malformed::kUnknownAttribute;
  }
  return Malformed::kNone;
}

Malformed CheckBody(const Message& message) {
  const auto check = [](const auto& fields) {
    if constexpr (requires { fields.information_bytes; }) {
      if (fields.information_bytes > kRejectInformationBytes) return Malformed::kBadInformation;
    }
    return Malformed::kNone;
  };
  const auto* mra = std::get_if<Mra>(&message);
  if (mra != nullptr && mra->message == Answered::kReserved) return Malformed::kBadAnswered;
  return std::visit(check, message);
}

constexpr std::array<std::string_view, kAttributes> kAttributeNames = {
    "REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR"};

constexpr std::array<std::string_view, static_cast<size_t>(Malformed::kCount)> kMalformedNames = {
    "none",       "wrong_length",      "bad_base_version", "foreign_class", "bad_class_version",
    "bad_method", "unknown_attribute", "bad_information",  "bad_answered"};

}  // namespace

ParsedMad ParseMessage(std::span<const uint8_t> mad) {
  ParsedMad parsed;
  if (mad.size() != kMadBytes) {
    parsed.malformed = Malformed::kWrongLength;
    return parsed;
  }
  parsed.header = ParseMadHeader(mad.data());
  parsed.malformed = CheckHeader(parsed.header);
  if (parsed.malformed != Malformed::kNone) return parsed;
  ParseBody(parsed.header.attribute_id - size_t{kFirstAttribute}, mad.data() + MadHeader::kBytes,
            parsed.message, std::make_index_sequence<kAttributes>());
  parsed.malformed = CheckBody(parsed.message);
  return parsed;
}

MadBytes EmitMessage(uint64_t transaction_id, const Message& message) {
  MadBytes mad{};
  EmitMadHeader(MessageHeader(static_cast<uint16_t>(AttributeOf(message)), transaction_id),
                mad.data());
  std::visit([&mad](const auto& one) { Fields(Writer(mad.data() + MadHeader::kBytes), one); },
             message);
  return mad;
}

std::string_view Name(Attribute attribute) {
  const size_t index = IndexOf(attribute);
  return index < kAttributes ? kAttributeNames[index] : "unknown";
}

std::string_view Name(Malformed reason) { return kMalformedNames[static_cast<size_t>(reason)]; }

}  // namespace uroce::transport::cm
