#pragma once

#include <stdint.h>

// What the preload library exports for the provider so that it survives faults in memory of the
// application; found as event_files.h is.

#ifdef __cplusplus
extern "C" {
#endif

// Returns where a thread goes on that faulted at `pc`, or 0 if the fault is none of ours.
// Async-signal-safe.
typedef uintptr_t (*uroce_resume_address)(uintptr_t pc);

// From now on faults at the addresses that `resume_address` knows are recovered from; all others
// take the way they would have taken. May be called again: a handler that the program
// installed past us meanwhile, by a raw system call, is put behind ours.
void uroce_guard_faults(uroce_resume_address resume_address);

// The calling thread can take faults: were SIGSEGV or SIGBUS blocked in it, the kernel would end
// the process instead. The thread goes on to see them blocked.
void uroce_accept_faults(void);

#ifdef __cplusplus
}  // extern "C"
#endif
