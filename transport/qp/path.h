#pragma once

#include "transport/address.h"
#include "transport/endpoint_config.h"
#include "transport/ids.h"
#include "transport/route.h"
#include "transport/wire/frame_builder.h"

namespace uroce::transport {

// The way from a queue pair to its peer, or of a datagram.
class Path {
 public:
  Path() = default;
  // The address was checked: its source GID index is valid and both GIDs are of one IP version.
  Path(const EndpointConfig& config, const AddressVector& address, Qpn local, Qpn remote)
      : source_gid_(config.gids[address.source_gid_index]),
        destination_gid_(address.destination_gid),
        route_(config.RouteTo(address.destination_gid, remote)),
        builder_(config.mac, source_gid_, address,
                 UdpSourcePort(address.flow_label, local, remote)) {}

  Route route() const { return route_; }
  const FrameBuilder& builder() const { return builder_; }

  // Whether a packet with these addresses, that came by `from`, comes from the other end.
  bool Matches(const Gid& source, const Gid& destination, Route from) const {
    return source == destination_gid_ && destination == source_gid_ && from == route_;
  }

 private:
  Gid source_gid_;
  Gid destination_gid_;
  Route route_ = Route::kWire;
  FrameBuilder builder_;
};

}  // namespace uroce::transport
