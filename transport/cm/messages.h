#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

#include "transport/cm/identifiers.h"
#include "transport/cm/mad.h"
#include "transport/cm/reject_reason.h"
#include "transport/ids.h"
#include "transport/psn.h"

// The messages of the communication manager. Numbers are in the byte order of the host, GIDs and
// private data as they are on the wire. messages.cc has the place of each field.
namespace uroce::transport::cm {

enum class Attribute : uint16_t {
  kReq = 0x10,
  kMra = 0x11,
  kRej = 0x12,
  kRep = 0x13,
  kRtu = 0x14,
  kDreq = 0x15,
  kDrep = 0x16,
  kSidrReq = 0x17,
  kSidrRep = 0x18,
  kLap = 0x19,
  kApr = 0x1a,
};
inline constexpr uint16_t kFirstAttribute = 0x10;
inline constexpr size_t kAttributes = 11;
constexpr size_t IndexOf(Attribute attribute) {
  return static_cast<size_t>(attribute) - kFirstAttribute;
}
std::string_view Name(Attribute attribute);

template <size_t kBytes>  // unused bytes are zero
using PrivateData = std::array<uint8_t, kBytes>;
inline constexpr size_t kRejectInformationBytes = 72;  // also of APR and SIDR_REP
using AdditionalInformation = std::array<uint8_t, kRejectInformationBytes>;

// One of the two paths of a REQ, and the path of a LAP. "Local" is the sender of the message. RoCE
// has no LIDs: 0 on one link, 0xffff ("permissive") where the hop limit allows routers, as Linux
// does.
struct PathFields {
  uint16_t local_lid = 0;
  uint16_t remote_lid = 0;
  Gid local_gid{};
  Gid remote_gid{};
  uint32_t flow_label = 0;  // 20 bits
  uint8_t packet_rate = 0;  // 6 bits, enum ibv_rate
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint8_t service_level = 0;      // 4 bits
  bool subnet_local = false;      // no router on the way
  uint8_t local_ack_timeout = 0;  // 5-bit exponent: 4.096 us * 2^n

  bool operator==(const PathFields&) const = default;
};

struct Req {  // request for communication
  CommunicationId local_id{};
  ServiceId service_id{};
  uint64_t local_ca_guid = 0;
  uint32_t local_qkey = 0;                 // reliable datagrams only
  Qpn local_qpn{};                         // 24 bits
  uint8_t responder_resources = 0;         // READs and atomics the sender accepts at a time
  uint32_t local_eecn = 0;                 // 24 bits; reliable datagrams only
  uint8_t initiator_depth = 0;             // READs and atomics the sender wants to have outstanding
  uint32_t remote_eecn = 0;                // 24 bits
  uint8_t remote_cm_response_timeout = 0;  // 5 bits: how soon the receiver has to answer
  uint8_t transport_service_type = 0;      // 2 bits: RC, UC, RD, extended
  bool end_to_end_flow_control = false;
  Psn starting_psn{};                     // of the first packet that the receiver sends
  uint8_t local_cm_response_timeout = 0;  // 5 bits: how soon the sender answers
  uint8_t retry_count = 0;                // 3 bits, of the receiver's queue pair
  uint16_t partition_key = 0;
  uint8_t path_mtu = 0;  // 4 bits, enum ibv_mtu
  bool rdc_exists = false;
  uint8_t rnr_retry_count = 0;  // 3 bits
  uint8_t max_cm_retries = 0;   // 4 bits
  bool srq = false;
  uint8_t extended_transport_type = 0;  // 3 bits: 1 is XRC
  PathFields primary{};
  PathFields alternate{};      // all zero: none
  bool sap_supported = false;  // suggest alternate path
  PrivateData<92> private_data{};

  bool operator==(const Req&) const = default;
};

// The message that an MRA or a REJ answers.
enum class Answered : uint8_t { kReq = 0, kRep = 1, kOther = 2, kReserved = 3 };

struct Mra {  // message receipt acknowledgement
  CommunicationId local_id{};
  CommunicationId remote_id{};
  Answered message = Answered::kReq;
  uint8_t service_timeout = 0;  // 5-bit exponent: the answer comes within 4.096 us * 2^n
  PrivateData<222> private_data{};

  bool operator==(const Mra&) const = default;
};

struct Rej {                   // reject
  CommunicationId local_id{};  // 0 if the sender has no id for this connection
  CommunicationId remote_id{};
  Answered message = Answered::kReq;
  uint8_t information_bytes = 0;  // of additional_information; at most 72
  RejectReason reason{};
  AdditionalInformation additional_information{};  // "ARI": what would have been accepted
  PrivateData<148> private_data{};

  bool operator==(const Rej&) const = default;
};

struct Rep {  // reply to request for communication
  CommunicationId local_id{};
  CommunicationId remote_id{};
  uint32_t local_qkey = 0;
  Qpn local_qpn{};
  uint32_t local_eecn = 0;  // XRC: the number of the target queue pair
  Psn starting_psn{};
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t target_ack_delay = 0;   // 5-bit exponent
  uint8_t failover_accepted = 0;  // 2 bits: 0 accepted, 1 not supported, 2 rejected
  bool end_to_end_flow_control = false;
  uint8_t rnr_retry_count = 0;  // 3 bits
  bool srq = false;
  uint64_t local_ca_guid = 0;
  PrivateData<196> private_data{};

  bool operator==(const Rep&) const = default;
};

struct Rtu {  // ready to use
  CommunicationId local_id{};
  CommunicationId remote_id{};
  PrivateData<224> private_data{};

  bool operator==(const Rtu&) const = default;
};

struct Dreq {  // request for communication release
  CommunicationId local_id{};
  CommunicationId remote_id{};
  Qpn remote_qpn{};  // of the receiver
  PrivateData<220> private_data{};

  bool operator==(const Dreq&) const = default;
};

struct Drep {  // reply to request for communication release
  CommunicationId local_id{};
  CommunicationId remote_id{};
  PrivateData<224> private_data{};

  bool operator==(const Drep&) const = default;
};

struct SidrReq {  // service id resolution request
  CommunicationId request_id{};
  uint16_t partition_key = 0;
  ServiceId service_id{};
  PrivateData<216> private_data{};

  bool operator==(const SidrReq&) const = default;
};

enum class SidrStatus : uint8_t {
  kValidQpn = 0,
  kUnsupportedService = 1,
  kRejected = 2,
  kNoQp = 3,
  kRedirect = 4,
  kUnsupportedVersion = 5,
};

struct SidrRep {  // service id resolution response
  CommunicationId request_id{};
  SidrStatus status{};
  uint8_t information_bytes = 0;
  Qpn qpn{};
  ServiceId service_id{};
  uint32_t qkey = 0;
  AdditionalInformation additional_information{};
  PrivateData<136> private_data{};

  bool operator==(const SidrRep&) const = default;
};

struct Lap {  // load alternate path
  CommunicationId local_id{};
  CommunicationId remote_id{};
  Qpn remote_qpn{};                        // of the receiver
  uint8_t remote_cm_response_timeout = 0;  // 5 bits
  PathFields alternate{};
  PrivateData<168> private_data{};

  bool operator==(const Lap&) const = default;
};

struct Apr {  // alternate path response
  CommunicationId local_id{};
  CommunicationId remote_id{};
  uint8_t information_bytes = 0;
  uint8_t status = 0;  // 0: the path was loaded
  AdditionalInformation additional_information{};
  PrivateData<148> private_data{};

  bool operator==(const Apr&) const = default;
};

// In the order of their attribute ids.
using Message = std::variant<Req, Mra, Rej, Rep, Rtu, Dreq, Drep, SidrReq, SidrRep, Lap, Apr>;

}  // namespace uroce::transport::cm
