#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstddef>
#include <cstdint>

// Commands that <rdma/rdma_user_cm.h> has from rdma-core 61 on, for builds with older
// headers, in our spelling.
namespace uroce::verbs::rdma_cm {

inline constexpr uint32_t kResolveIbService = 23;  // RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE
inline constexpr uint32_t kWriteCmEvent = 24;      // RDMA_USER_CM_CMD_WRITE_CM_EVENT

// struct rdma_ucm_resolve_ib_service
struct ResolveIbServiceCommand {
  uint32_t id;
  uint32_t reserved;
  uint64_t service_id;
  uint8_t service_name[64];
  uint32_t flags;
  uint32_t reserved_end;
};
static_assert(sizeof(ResolveIbServiceCommand) == 88);

// struct rdma_ucm_write_cm_event up to the parameter of the events that may be written: its union
// is longer.
struct WriteCmEventCommand {
  uint32_t id;
  uint32_t reserved;
  uint32_t event;
  uint32_t status;
  uint64_t argument;
};
static_assert(offsetof(WriteCmEventCommand, argument) == 16);

// The events that may be written, of enum rdma_cm_event_type.
inline constexpr uint32_t kEventUser = 18;      // RDMA_CM_EVENT_USER: the application's
inline constexpr uint32_t kEventInternal = 19;  // RDMA_CM_EVENT_INTERNAL: librdmacm's own

}  // namespace uroce::verbs::rdma_cm
