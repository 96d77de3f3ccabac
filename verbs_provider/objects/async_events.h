#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "transport/events.h"

namespace uroce::verbs {

// Hands an event of the transport to the application: a completion event to the channel of its
// completion queue, everything else to the asynchronous event file of the context, or of all
// contexts if it is about the device. Called with the engine's lock held, which also protects the
// objects' counts of posted events.
void DeliverEvent(const transport::Event& event);

// Waits until the application has acknowledged `posted` events: `*completed` is counted by
// libibverbs under `mutex`, which signals `cond`. Both counts wrap.
void AwaitAcknowledgements(pthread_mutex_t* mutex, pthread_cond_t* cond, const uint32_t* completed,
                           uint32_t posted);

}  // namespace uroce::verbs
