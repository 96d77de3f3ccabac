#pragma once

#include <stdint.h>

// Functions that the preload library exports so that the provider survives faults in memory of the
// application; found like those of event_files.h.

#ifdef __cplusplus
extern "C" {
#endif

// Returns the address where a thread that faulted at `pc` continues, or 0 if the fault is not ours.
// Async-signal-safe.
typedef uintptr_t (*uroce_resume_address)(uintptr_t pc);

// From now on recovers from faults at the addresses that `resume_address` knows; all other faults
// have the effect that they would have had. May be called again: a handler that the program
// installed past us meanwhile, by a raw system call, is put behind ours.
void uroce_guard_faults(uroce_resume_address resume_address);

// Lets the calling thread take faults: if SIGSEGV or SIGBUS were blocked in it, the kernel would
// end the process instead. The thread still sees them as blocked.
void uroce_accept_faults(void);

#ifdef __cplusplus
}  // extern "C"
#endif
