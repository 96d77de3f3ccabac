#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "transport/address.h"
#include "transport/cm/identifiers.h"
#include "transport/cm/messages.h"
#include "transport/ids.h"
#include "transport/psn.h"
#include "transport/qp_attributes.h"
#include "transport/random_numbers.h"
#include "transport/time.h"

// The parameters of the communication manager's calls. Private data is copied; more of it than the
// message has room for (messages.h) is kInvalidArgument.
namespace uroce::transport::cm {

using Bytes = std::span<const uint8_t>;

struct Config {
  uint64_t ca_guid = 0;       // of the device
  uint8_t ack_delay = 0;      // local_ca_ack_delay of the device, 5-bit exponent
  Seed seed{};                // communication and transaction ids cannot be guessed
  uint32_t id_prefix = 0;     // of all communication ids: the block of the process ...
  int id_prefix_bits = 0;     // ... in this many upper bits, at most 16
  uint32_t max_ids = 65'536;  // at most kMaxIds
};

enum class TransportService : uint8_t { kReliableConnection, kUnreliableConnection, kXrc };

// A path to a port of a peer: the contents of a path record, resolved for RoCE.
struct Path {
  Gid source_gid{};         // the one at address.source_gid_index
  AddressVector address{};  // destination_mac is zero where it still has to be resolved
  uint16_t pkey = 0xffff;
  uint16_t pkey_index = 0;
  Mtu mtu = Mtu::k1024;
  uint8_t packet_life_time = 0;  // 5-bit exponent; rdma_cm takes 16 for RoCE

  bool operator==(const Path&) const = default;
};

struct ConnectParameters {
  ServiceId service_id{};
  Path path{};
  std::optional<Path> alternate_path{};  // of the same P_Key and MTU
  TransportService service = TransportService::kReliableConnection;
  Qpn qpn{};
  Psn starting_psn{};  // the first that the peer sends
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t remote_cm_response_timeout = 20;  // 4.3 s
  uint8_t local_cm_response_timeout = 20;
  uint8_t max_cm_retries = 15;
  uint8_t retry_count = 7;
  uint8_t rnr_retry_count = 7;
  bool flow_control = true;
  bool srq = false;
  Bytes private_data{};  // at most 92 bytes
};

struct AcceptParameters {
  Qpn qpn{};
  Psn starting_psn{};
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t failover_accepted = 0;  // 0 accepted, 1 not supported, 2 rejected
  uint8_t rnr_retry_count = 7;
  bool flow_control = true;
  bool srq = false;
  Bytes private_data{};  // at most 196 bytes
};

struct RejectParameters {
  RejectReason reason = RejectReason::kConsumerDefined;
  Bytes information{};   // at most 72 bytes
  Bytes private_data{};  // at most 148 bytes
};

struct ResolveParameters {
  ServiceId service_id{};
  Path path{};
  Duration timeout = Milliseconds(4'096);
  uint8_t max_cm_retries = 15;
  Bytes private_data{};  // at most 216 bytes
};

struct ResolutionParameters {
  SidrStatus status = SidrStatus::kValidQpn;
  Qpn qpn{};
  uint32_t qkey = 0;
  Bytes information{};   // at most 72 bytes
  Bytes private_data{};  // at most 136 bytes
};

struct AlternatePathAnswer {
  uint8_t status = 0;    // 0: the path was loaded
  Bytes information{};   // at most 72 bytes
  Bytes private_data{};  // at most 148 bytes
};

}  // namespace uroce::transport::cm
