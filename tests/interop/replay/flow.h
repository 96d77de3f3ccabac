#pragma once

#include <vector>

#include "tests/interop/replay/capture.h"
#include "transport/ids.h"
#include "transport/psn.h"
#include "transport/qp_attributes.h"
#include "transport/wire/packet.h"

namespace uroce::transport::interop {

// One end of a flow of requests, as seen on the wire.
struct FlowEnd {
  MacAddress mac{};
  Gid gid;
  Qpn qpn;
};

// The requests of one queue pair to another one, and their answers. A connection that is used in
// both directions has two flows.
struct Flow {
  Service service{};
  FlowEnd requester;
  FlowEnd responder;
  Psn first_psn;  // of the requests
  Mtu mtu = Mtu::k1024;

  bool HasRequest(const CapturedFrame& frame) const;
  bool HasAnswer(const CapturedFrame& frame) const;
};

// All flows of a capture but those of the connection manager. The PSNs tell which queue pairs
// belong together: rxe starts each connection at a random PSN.
std::vector<Flow> FindFlows(const Capture& capture);

// The number of PSNs of a request: for a READ, the packets of its response.
uint32_t PsnsOf(const TransportHeaders& request, Mtu mtu);

}  // namespace uroce::transport::interop
