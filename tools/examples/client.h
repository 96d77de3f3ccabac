// The active end: it drives the traffic, watches its QP with ibv_query_qp and checks what it sees.
#pragma once

#include "tools/examples/control_channel.h"
#include "tools/examples/rc_connection.h"

namespace live_query {

// Prints what happens. Throws std::runtime_error at the first result that is not as promised.
void RunClient(const Device& device, ControlChannel channel);

}  // namespace live_query
