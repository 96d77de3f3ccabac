#pragma once

#include <vector>

#include "tests/interop/replay/capture.h"
#include "transport/ids.h"
#include "transport/psn.h"
#include "transport/qp_attributes.h"
#include "transport/wire/packet.h"

namespace uroce::transport::interop {

// One end of a flow of requests as it is seen on the wire.
struct FlowEnd {
  MacAddress mac{};
  Gid gid;
  Qpn qpn;
};

// The requests of one queue pair to another one, and the answers to them. A connection that is used
// in both directions has two flows.
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
// belong together: rxe starts each connection at a random one.
std::vector<Flow> FindFlows(const Capture& capture);

// PSNs that a request uses: a READ as many as its response has packets.
uint32_t PsnsOf(const TransportHeaders& request, Mtu mtu);

}  // namespace uroce::transport::interop
