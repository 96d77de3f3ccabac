#include "dpdk_nic/switch/cm_message.h"

#include "transport/cm/mad.h"
#include "transport/cm/messages.h"
#include "transport/route.h"
#include "transport/wire/byte_order.h"

namespace uroce::nic {
namespace {

using transport::Load32;
using transport::Load64;
using transport::cm::Attribute;
using transport::cm::MadHeader;

static_assert(CmMessage::BlockOf(UINT32_MAX) == transport::kQpnBlocks - 1, "an id for each block");

// What follows the MAD header: tables 106 to 120 of chapter 12, as Linux has them in
// include/rdma/ibta_vol1_c12.h.
constexpr size_t kMadHeaderBytes = MadHeader::kBytes;
constexpr size_t kSenderOffset = kMadHeaderBytes + 0;  // the local communication id, or request id
constexpr size_t kRecipientOffset = kMadHeaderBytes + 4;       // the remote communication id
constexpr size_t kRequestServiceOffset = kMadHeaderBytes + 8;  // REQ and SIDR_REQ
constexpr size_t kAnswerServiceOffset = kMadHeaderBytes + 12;  // SIDR_REP
static_assert(kAnswerServiceOffset + 8 == CmMessage::kParsedBytes);

}  // namespace

std::optional<CmMessage> CmMessage::Parse(const uint8_t* mad) {
  const MadHeader header = transport::cm::ParseMadHeader(mad);
  if (header.management_class != transport::cm::kCommunicationManagementClass) return std::nullopt;
  if (header.class_version != transport::cm::kCommunicationManagementVersion) return std::nullopt;
  const auto at = [mad](size_t offset) { return Load32(mad + offset); };
  switch (static_cast<Attribute>(header.attribute_id)) {
    case Attribute::kReq:
    case Attribute::kSidrReq:
      return CmMessage{.service_id = Load64(mad + kRequestServiceOffset),
                       .sender_id = at(kSenderOffset)};
    case Attribute::kSidrRep:
      return CmMessage{.service_id = Load64(mad + kAnswerServiceOffset),
                       .recipient_id = at(kSenderOffset)};
    case Attribute::kMra:
    case Attribute::kRej:
    case Attribute::kRep:
    case Attribute::kRtu:
    case Attribute::kDreq:
    case Attribute::kDrep:
    case Attribute::kLap:
    case Attribute::kApr:
      return CmMessage{.sender_id = at(kSenderOffset), .recipient_id = at(kRecipientOffset)};
    default:
      return std::nullopt;
  }
}

}  // namespace uroce::nic
