#pragma once

#include "transport/cm/messages.h"
#include "transport/cm/parameters.h"
#include "transport/cm/timeouts.h"

namespace uroce::transport::cm {

// AddressVector::static_rate and the field of a REQ both hold an enum ibv_rate. A port without LIDs
// says "permissive" where routers may be on the path, as Linux does.
inline PathFields FieldsOf(const Path& path, uint8_t ack_delay) {
  const bool is_local = path.address.hop_limit <= 1;
  const uint16_t lid = is_local ? 0 : 0xffff;
  return {.local_lid = lid,
          .remote_lid = lid,
          .local_gid = path.source_gid,
          .remote_gid = path.address.destination_gid,
          .flow_label = path.address.flow_label,
          .packet_rate = path.address.static_rate,
          .traffic_class = path.address.traffic_class,
          .hop_limit = path.address.hop_limit,
          .service_level = path.address.service_level,
          .subnet_local = is_local,
          .local_ack_timeout = AckTimeoutCode(ack_delay, path.packet_life_time)};
}

// The path back: "local" in a message is remote for its receiver. `in` is the source of the
// message, with the local GID's index and, for the primary path, the Ethernet address.
inline Path PathOf(const PathFields& fields, const MadAddress& in, uint16_t pkey, Mtu mtu) {
  Path path{.source_gid = fields.remote_gid,
            .address = in.path,
            .pkey = pkey,
            .pkey_index = in.pkey_index,
            .mtu = mtu,
            .packet_life_time = static_cast<uint8_t>(fields.local_ack_timeout -
                                                     (fields.local_ack_timeout > 0 ? 1 : 0))};
  path.address.destination_gid = fields.local_gid;
  path.address.flow_label = fields.flow_label;
  path.address.traffic_class = fields.traffic_class;
  path.address.service_level = fields.service_level;
  path.address.static_rate = fields.packet_rate;
  if (fields.local_gid != in.path.destination_gid) path.address.destination_mac = {};
  return path;
}

}  // namespace uroce::transport::cm
