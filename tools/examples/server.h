// The passive end: it connects, sends and falls silent as the client asks.
#pragma once

#include "tools/examples/control_channel.h"
#include "tools/examples/rc_connection.h"

namespace live_query {

// Serves one client until it says BYE. Throws std::runtime_error.
//
// A request is a line, and so is its answer:
//   CONNECT <endpoint>      a new QP, ready to send  -> <endpoint>
//   SEND <count> <bytes>    so many SENDs, completed -> DONE
//   SILENCE                 the QP goes to RESET     -> DONE
//   BYE                                              (no answer)
void Serve(const Device& device, ControlChannel channel);

}  // namespace live_query
