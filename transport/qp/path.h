#pragma once

#include "transport/address.h"
#include "transport/endpoint_config.h"
#include "transport/ids.h"
#include "transport/route.h"
#include "transport/wire/flow.h"
#include "transport/wire/frame_builder.h"

namespace uroce::transport {

// The path from a queue pair to its peer, or of a datagram: route and headers of the frames.
class Path {
 public:
  Path() = default;
  // `source` has the IP version of the destination, or is zero: then frames reach no peer.
  Path(const EndpointConfig& config, const Gid& source, const AddressVector& address, Qpn local,
       Qpn remote)
      : route_(config.RouteTo(address.destination_gid, remote)),
        builder_(config.mac, source, address, UdpSourcePort(address.flow_label, local, remote)) {}
  // The same for a connection.
  static Path ToPeer(const EndpointConfig& config, const Gid& source, const AddressVector& address,
                     Qpn local, Qpn remote) {
    Path path(config, source, address, local, remote);
    path.is_connection_ = true;
    return path;
  }

  Route route() const { return route_; }
  const Gid& source() const { return builder_.flow().source; }
  const FrameBuilder& builder() const { return builder_; }
  // See FrameBuilder.
  void SetConnection(const FrameBuilder::Connection& connection) {
    builder_.SetConnection(connection);
  }

  bool is_connection() const { return is_connection_; }
  // Of a connection only: whether a packet that came by `from` is the peer's.
  bool Matches(const Flow& flow, Route from) const {
    const Flow& ours = builder_.flow();
    return flow.source == ours.destination && flow.destination == ours.source && from == route_;
  }

 private:
  bool is_connection_ = false;
  Route route_ = Route::kWire;
  FrameBuilder builder_;
};

}  // namespace uroce::transport
