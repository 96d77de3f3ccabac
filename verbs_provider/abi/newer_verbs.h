#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

// Constants that newer <infiniband/verbs.h> and <rdma/ib_user_verbs.h> have, for builds with older
// headers, in our spelling: those of memory placement (FLUSH, ATOMIC WRITE) from rdma-core 45 on.
// An application uses the numbers of the headers it was built with.
namespace uroce::verbs::abi {

// IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC, release 65.
inline constexpr uint32_t kParentDomainAllowUnprotected = 1u << 2;

inline constexpr unsigned int kAccessFlushGlobal = 1u << 8;  // IBV_ACCESS_FLUSH_GLOBAL
inline constexpr unsigned int kAccessFlushPersistent = 1u << 9;
inline constexpr uint64_t kQpExWithFlush = 1u << 11;         // IBV_QP_EX_WITH_FLUSH
inline constexpr uint64_t kQpExWithAtomicWrite = 1u << 12;   // IBV_QP_EX_WITH_ATOMIC_WRITE
inline constexpr uint32_t kWrFlush = 14;                     // IBV_WR_FLUSH
inline constexpr uint32_t kWrAtomicWrite = 15;               // IBV_WR_ATOMIC_WRITE
inline constexpr uint32_t kWcFlush = 8;                      // IBV_WC_FLUSH
inline constexpr uint32_t kWcAtomicWrite = 9;                // IBV_WC_ATOMIC_WRITE
inline constexpr uint8_t kFlushGlobal = 1u << 0;             // IBV_FLUSH_GLOBAL
inline constexpr uint8_t kFlushPersistent = 1u << 1;         // IBV_FLUSH_PERSISTENT
inline constexpr uint8_t kFlushRange = 0;                    // IBV_FLUSH_RANGE
inline constexpr uint8_t kFlushMr = 1;                       // IBV_FLUSH_MR
inline constexpr uint32_t kOdpSupportFlush = 1u << 6;        // IBV_ODP_SUPPORT_FLUSH
inline constexpr uint32_t kOdpSupportAtomicWrite = 1u << 7;  // IBV_ODP_SUPPORT_ATOMIC_WRITE
// Of ibv_device_attr_ex.device_cap_flags_ex: IB_UVERBS_DEVICE_FLUSH_GLOBAL, _ATOMIC_WRITE.
inline constexpr uint64_t kDeviceFlushGlobal = 1ull << 38;
inline constexpr uint64_t kDeviceAtomicWrite = 1ull << 40;

// Offsets in bytes and types of the members that were appended to ibv_qp_ex: wr_atomic_write in
// release 44, wr_flush in release 45.
inline constexpr size_t kWrAtomicWriteAt = 344;
inline constexpr size_t kWrFlushAt = 352;
using WrAtomicWrite = void (*)(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_address,
                               const void* number);
using WrFlush = void (*)(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_address, size_t length,
                         uint8_t type, uint8_t level);
static_assert(offsetof(ibv_qp_ex, wr_abort) + sizeof(void (*)()) == kWrAtomicWriteAt);

}  // namespace uroce::verbs::abi
