#include "tests/fuzz/fuzz_peer.h"

#include "tests/fuzz/require.h"

namespace uroce::transport {
namespace {

using M = QpAttributeMask;

// The attributes that the queue pair's type has.
uint32_t OfType(QpType type, uint32_t rc, uint32_t uc, uint32_t ud) {
  if (type == QpType::kReliableConnection || type == QpType::kXrcReceive) return rc;
  return type == QpType::kUnreliableConnection ? uc : ud;
}

}  // namespace

void Connect(QueuePair& qp, const FuzzConnection& connection, QpState target) {
  const QpType type = qp.init_attributes().type;
  QpAttributes a;
  a.port_num = 1;
  a.qkey = kFuzzQkey;
  a.access = AccessFlags(connection.access);
  a.path_mtu = connection.mtu;
  a.destination_qpn = connection.peer_qpn;
  a.rq_psn = a.sq_psn = connection.first_psn;
  a.max_read_atomic = a.max_dest_read_atomic = connection.max_read_atomic;
  a.min_rnr_timer = kFuzzRnrTimer;
  a.timeout = connection.timeout;
  a.retry_count = connection.retry_count;
  a.rnr_retry = connection.rnr_retry;
  a.address = {.destination_gid = kPeerGid, .destination_mac = kPeerMac, .source_gid_index = 1};
  constexpr uint32_t kPath = M::kAddressVector | M::kPathMtu | M::kDestinationQpn | M::kRqPsn;
  const bool is_target = type == QpType::kXrcReceive;
  const uint32_t retries =
      is_target ? M::kTimeout : M::kTimeout | M::kRetryCount | M::kRnrRetry | M::kMaxReadAtomic;

  const uint32_t masks[] = {
      M::kPkeyIndex | M::kPort | OfType(type, M::kAccessFlags, M::kAccessFlags, M::kQkey),
      OfType(type, kPath | M::kMaxDestReadAtomic | M::kMinRnrTimer, kPath, 0),
      M::kSqPsn | OfType(type, retries, 0, 0)};
  for (uint32_t state = 1; state <= static_cast<uint32_t>(target); ++state) {
    a.state = static_cast<QpState>(state);
    UROCE_REQUIRE(qp.Modify(a, M::kState | masks[state - 1]) == Status::kOk);
  }
}

}  // namespace uroce::transport
