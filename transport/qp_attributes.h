#pragma once

#include <cstdint>

#include "transport/access.h"
#include "transport/address.h"
#include "transport/ids.h"
#include "transport/psn.h"

namespace uroce::transport {

class CompletionQueue;
class SharedReceiveQueue;

// The values are those of enum ibv_qp_state.
enum class QpState : uint8_t {
  kReset = 0,
  kInit = 1,
  kReadyToReceive = 2,
  kReadyToSend = 3,
  kSendQueueDrain = 4,
  kSendQueueError = 5,
  kError = 6,
};
inline constexpr int kQpStates = 7;

// The values are those of enum ibv_qp_type.
enum class QpType : uint8_t {
  kReliableConnection = 2,
  kUnreliableConnection = 3,
  kUnreliableDatagram = 4,
  kRawPacket = 8,    // whole Ethernet frames: no transport, no peer
  kXrcSend = 9,      // the initiator: sends requests and takes responses
  kXrcReceive = 10,  // the target: takes requests, for the shared receive queues of its domain
};

// The values are those of enum ibv_mtu.
enum class Mtu : uint8_t { k256 = 1, k512 = 2, k1024 = 3, k2048 = 4, k4096 = 5 };

constexpr uint32_t Bytes(Mtu mtu) { return 128u << static_cast<uint32_t>(mtu); }

// The values are those of enum ibv_mig_state.
enum class MigrationState : uint8_t { kMigrated = 0, kRearm = 1, kArmed = 2 };

// The fields of QpAttributes that a modify call sets. The bits are those of enum ibv_qp_attr_mask.
struct QpAttributeMask {
  static constexpr uint32_t kState = 1 << 0;
  static constexpr uint32_t kCurrentState = 1 << 1;
  static constexpr uint32_t kEnableSqdNotify = 1 << 2;
  static constexpr uint32_t kAccessFlags = 1 << 3;
  static constexpr uint32_t kPkeyIndex = 1 << 4;
  static constexpr uint32_t kPort = 1 << 5;
  static constexpr uint32_t kQkey = 1 << 6;
  static constexpr uint32_t kAddressVector = 1 << 7;
  static constexpr uint32_t kPathMtu = 1 << 8;
  static constexpr uint32_t kTimeout = 1 << 9;
  static constexpr uint32_t kRetryCount = 1 << 10;
  static constexpr uint32_t kRnrRetry = 1 << 11;
  static constexpr uint32_t kRqPsn = 1 << 12;
  static constexpr uint32_t kMaxReadAtomic = 1 << 13;
  static constexpr uint32_t kAlternatePath = 1 << 14;
  static constexpr uint32_t kMinRnrTimer = 1 << 15;
  static constexpr uint32_t kSqPsn = 1 << 16;
  static constexpr uint32_t kMaxDestReadAtomic = 1 << 17;
  static constexpr uint32_t kMigrationState = 1 << 18;
  static constexpr uint32_t kCapabilities = 1 << 19;
  static constexpr uint32_t kDestinationQpn = 1 << 20;
  static constexpr uint32_t kRateLimit = 1 << 25;
};

// struct ibv_qp_cap.
struct QpCapabilities {
  uint32_t max_send_wr = 0;
  uint32_t max_receive_wr = 0;
  uint32_t max_send_sge = 0;
  uint32_t max_receive_sge = 0;
  uint32_t max_inline_bytes = 0;

  bool operator==(const QpCapabilities&) const = default;
};

// struct ibv_qp_rate_limit_attr.
struct RateLimit {
  uint32_t kbps = 0;         // 0: none
  uint32_t burst_bytes = 0;  // that may leave in one go; 0: our default (qp/pacing.cc)

  bool operator==(const RateLimit&) const = default;
};

// struct ibv_qp_attr: the argument of a modify and the result of a query. The fields that packets
// need come first.
struct QpAttributes {
  QpState state = QpState::kReset;
  QpState current_state = QpState::kReset;
  Mtu path_mtu = Mtu::k256;
  MigrationState migration_state = MigrationState::kMigrated;
  uint32_t qkey = 0;
  Psn rq_psn;  // next PSN expected from the peer
  Psn sq_psn;  // next PSN to be sent
  Qpn destination_qpn;
  AccessFlags access;
  uint16_t pkey_index = 0;
  uint16_t alternate_pkey_index = 0;
  bool enable_sqd_notify = false;
  bool sq_draining = false;
  uint8_t max_read_atomic = 0;       // as requester
  uint8_t max_dest_read_atomic = 0;  // as responder
  uint8_t min_rnr_timer = 0;         // 5-bit code of the RNR NAK timer we ask for
  uint8_t port_num = 0;
  uint8_t timeout = 0;      // 5-bit exponent: 4.096 us * 2^timeout, 0 = for ever
  uint8_t retry_count = 0;  // 3 bits
  uint8_t rnr_retry = 0;    // 3 bits, 7 = for ever
  uint8_t alternate_port_num = 0;
  uint8_t alternate_timeout = 0;
  RateLimit rate_limit;
  QpCapabilities capabilities;
  AddressVector address;
  AddressVector alternate_address;
};

// struct ibv_qp_init_attr_ex. The queues stay owned by the caller and must outlive the QP. An XRC
// initiator needs no receive_cq. An XRC target has no queues and no protection domain of its own:
// it uses those of the shared receive queue that a request names.
struct QpInitAttributes {
  PdId pd{};
  QpType type = QpType::kReliableConnection;
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* receive_cq = nullptr;
  SharedReceiveQueue* srq = nullptr;  // instead of a receive queue of its own
  QpCapabilities capabilities{};
  bool signal_all = false;  // sq_sig_all
  // Datagrams: what the queue pair sends to a group that it is a member of does not come back.
  bool blocks_own_multicast = false;
  XrcDomainId xrc_domain{};  // of an XRC target
  XrcKey xrc_key{};          // of a domain that is shared with other processes; otherwise zero
  // An XRC target that works for one of another process (XrcExecutors): the number that completions
  // name. 0: its own.
  Qpn reported_qpn{};
  void* context = nullptr;  // the caller's; comes back in events
};

}  // namespace uroce::transport
