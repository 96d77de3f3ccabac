#include "transport/cm/steering.h"

#include "transport/cm/mad.h"
#include "transport/cm/messages.h"
#include "transport/wire/byte_order.h"

namespace uroce::transport::cm {
namespace {

// Fields behind the MAD header: tables 106 to 120 of chapter 12, as Linux has them in
// include/rdma/ibta_vol1_c12.h.
constexpr size_t kSenderOffset = MadHeader::kBytes + 0;     // local communication id, or request id
constexpr size_t kRecipientOffset = MadHeader::kBytes + 4;  // remote communication id
constexpr size_t kRequestServiceOffset = MadHeader::kBytes + 8;  // REQ and SIDR_REQ
constexpr size_t kAnswerServiceOffset = MadHeader::kBytes + 12;  // SIDR_REP
static_assert(kAnswerServiceOffset + 8 == Steering::kParsedBytes);

}  // namespace

std::optional<Steering> Steering::Parse(const uint8_t* mad) {
  const MadHeader header = ParseMadHeader(mad);
  if (header.management_class != kCommunicationManagementClass) return std::nullopt;
  if (header.class_version != kCommunicationManagementVersion) return std::nullopt;
  const auto id_at = [mad](size_t offset) { return CommunicationId{Load32(mad + offset)}; };
  const auto service_at = [mad](size_t offset) { return ServiceId{Load64(mad + offset)}; };
  switch (static_cast<Attribute>(header.attribute_id)) {
    case Attribute::kReq:
    case Attribute::kSidrReq:
      return Steering{.service = service_at(kRequestServiceOffset), .sender = id_at(kSenderOffset)};
    case Attribute::kSidrRep:
      return Steering{.service = service_at(kAnswerServiceOffset),
                      .recipient = id_at(kSenderOffset)};
    case Attribute::kMra:
    case Attribute::kRej:
    case Attribute::kRep:
    case Attribute::kRtu:
    case Attribute::kDreq:
    case Attribute::kDrep:
    case Attribute::kLap:
    case Attribute::kApr:
      return Steering{.sender = id_at(kSenderOffset), .recipient = id_at(kRecipientOffset)};
    default:
      return std::nullopt;
  }
}

}  // namespace uroce::transport::cm
