#pragma once

#include "transport/address.h"
#include "transport/endpoint_config.h"
#include "transport/ids.h"
#include "transport/route.h"
#include "transport/wire/connection_frame.h"
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
  // The same for a connection, whose peer sends packets of `service`.
  Path(const EndpointConfig& config, const Gid& source, const AddressVector& address, Qpn local,
       Qpn remote, Service service)
      : Path(config, source, address, local, remote) {
    is_connection_ = true;
    arrivals_ = {.service = service,
                 .destination_qpn = local,
                 .source = address.destination_gid,
                 .destination = source};
  }

  Route route() const { return route_; }
  const Gid& source() const { return arrivals_.destination; }  // of a connection only
  const FrameBuilder& builder() const { return builder_; }
  // See FrameBuilder.
  void SetConnection(const FrameBuilder::Connection& connection) {
    builder_.SetConnection(connection);
  }

  // The frames that the peer sends; of a connection only.
  bool is_connection() const { return is_connection_; }
  const ConnectionFrames& arrivals() const { return arrivals_; }
  // Whether a packet with these addresses that came by `from` is one of them.
  bool Matches(const Gid& source, const Gid& destination, Route from) const {
    return source == arrivals_.source && destination == arrivals_.destination && from == route_;
  }

 private:
  ConnectionFrames arrivals_;
  bool is_connection_ = false;
  Route route_ = Route::kWire;
  FrameBuilder builder_;
};

}  // namespace uroce::transport
