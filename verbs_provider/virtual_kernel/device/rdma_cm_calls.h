#pragma once

#include <stddef.h>
#include <stdint.h>

// The part of the C interface between the virtual kernel and the provider that is about
// /dev/infiniband/rdma_cm. Exported by the provider, and looked up with dlsym; a provider without
// these functions has no connection manager.

#ifdef __cplusplus
extern "C" {
#endif

struct uroce_rdma_cm;  // an open /dev/infiniband/rdma_cm

// Called when the file that was opened with this `file` has `delta` more events in its queue, fewer
// if `delta` is negative. Must not block.
typedef void (*uroce_rdma_cm_events)(void* file, int delta);

// Returns 0, or a positive errno value.
int uroce_rdma_cm_open(void* file, uroce_rdma_cm_events events, struct uroce_rdma_cm** channel);

// write() of `bytes` bytes: 0 when all were taken, or a positive errno value. Does not wait:
// RDMA_USER_CM_CMD_GET_EVENT returns EAGAIN when there is no event; before that command the caller
// takes one of the events that uroce_rdma_cm_events counted. `other` is the file that
// RDMA_USER_CM_CMD_MIGRATE_ID names, or null.
int uroce_rdma_cm_write(struct uroce_rdma_cm* channel, struct uroce_rdma_cm* other,
                        const void* command, size_t bytes);

// Ends the ids of the channel, as the last close() does. No more events are reported for `file`.
void uroce_rdma_cm_close(struct uroce_rdma_cm* channel);

#ifdef __cplusplus
}  // extern "C"
#endif
