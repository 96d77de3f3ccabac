#include "dpdk_nic/switch/cm_message.h"

#include "transport/route.h"
#include "transport/wire/byte_order.h"

namespace uroce::nic {
namespace {

using transport::Load16;
using transport::Load32;
using transport::Load64;

static_assert(CmMessage::BlockOf(UINT32_MAX) == transport::kQpnBlocks - 1, "an id for each block");

// The common MAD header: struct ib_mad_hdr of Linux, include/rdma/ib_mad.h.
constexpr size_t kClassOffset = 1;
constexpr size_t kClassVersionOffset = 2;
constexpr size_t kAttributeOffset = 16;
constexpr size_t kMadHeaderBytes = 24;
constexpr uint8_t kCommunicationManagement = 0x07;
constexpr uint8_t kClassVersion = 2;

// What follows it, and the attribute ids: tables 106 to 120 of chapter 12, as Linux has them in
// include/rdma/ibta_vol1_c12.h and drivers/infiniband/core/cm_msgs.h.
constexpr size_t kSenderOffset = kMadHeaderBytes + 0;  // the local communication id, or request id
constexpr size_t kRecipientOffset = kMadHeaderBytes + 4;       // the remote communication id
constexpr size_t kRequestServiceOffset = kMadHeaderBytes + 8;  // REQ and SIDR_REQ
constexpr size_t kAnswerServiceOffset = kMadHeaderBytes + 12;  // SIDR_REP
static_assert(kAnswerServiceOffset + 8 == CmMessage::kParsedBytes);

enum Attribute : uint16_t {
  kRequest = 0x10,
  kMessageReceiptAcknowledgement = 0x11,
  kReject = 0x12,
  kReply = 0x13,
  kReadyToUse = 0x14,
  kDisconnectRequest = 0x15,
  kDisconnectReply = 0x16,
  kServiceIdResolutionRequest = 0x17,
  kServiceIdResolutionReply = 0x18,
  kLoadAlternatePath = 0x19,
  kAlternatePathResponse = 0x1a,
};

}  // namespace

std::optional<CmMessage> CmMessage::Parse(const uint8_t* mad) {
  if (mad[kClassOffset] != kCommunicationManagement) return std::nullopt;
  if (mad[kClassVersionOffset] != kClassVersion) return std::nullopt;
  const auto at = [mad](size_t offset) { return Load32(mad + offset); };
  switch (Load16(mad + kAttributeOffset)) {
    case kRequest:
    case kServiceIdResolutionRequest:
      return CmMessage{.service_id = Load64(mad + kRequestServiceOffset),
                       .sender_id = at(kSenderOffset)};
    case kServiceIdResolutionReply:
      return CmMessage{.service_id = Load64(mad + kAnswerServiceOffset),
                       .recipient_id = at(kSenderOffset)};
    case kMessageReceiptAcknowledgement:
    case kReject:
    case kReply:
    case kReadyToUse:
    case kDisconnectRequest:
    case kDisconnectReply:
    case kLoadAlternatePath:
    case kAlternatePathResponse:
      return CmMessage{.sender_id = at(kSenderOffset), .recipient_id = at(kRecipientOffset)};
    default:
      return std::nullopt;
  }
}

}  // namespace uroce::nic
