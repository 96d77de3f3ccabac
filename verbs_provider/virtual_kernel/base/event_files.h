#pragma once

#include <stdint.h>

// Functions that the virtual kernel (liburoce-preload.so) exports for the provider besides the libc
// functions that it interposes; found with dlsym(RTLD_DEFAULT, ...). An event file is a descriptor
// from which the application reads fixed-size records, as from a completion channel or an
// asynchronous event descriptor of the kernel: blocking and non-blocking reads, poll and epoll
// work, and every call that reads gets whole records. Completion channels are event files that
// ibv_create_comp_channel made.

#ifdef __cplusplus
extern "C" {
#endif

// A new event file of records of `record_bytes` (8 or 16). Returns the read end, close-on-exec,
// which the caller owns, or -1 with errno set. Needed because libibverbs takes the asynchronous
// event descriptor from the provider.
int uroce_event_file_open(uint32_t record_bytes);

// Queues one record. Returns 0, or a positive errno: EBADF when `fd` is no event file, or no longer
// one; ENOBUFS when the reader has let too many pile up. Never blocks, never raises SIGPIPE.
int uroce_event_post(int fd, const void* record);

// Removes the queued records whose first 8 bytes are `element`, and returns how many these were.
// Needed because an object may be destroyed while events that carry its address are unread.
// Records of other elements may change places. 0 when `fd` is no event file.
uint32_t uroce_event_purge(int fd, uint64_t element);

// A number of the open /dev/infiniband/uverbsN behind `fd`: the same for its duplicates, another
// one for each further open(); 0 when `fd` is no such file. Needed by ibv_import_device(), which is
// given a duplicate.
uint64_t uroce_uverbs_file(int fd);

#ifdef __cplusplus
}  // extern "C"
#endif
