#include "verbs_provider/rdma_cm/uverbs_structs.h"

#include <endian.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace uroce::verbs::rdma_cm {
namespace {

constexpr uint8_t kExactly = 2;       // IB_SA_EQ: a selector of MTU, rate and packet life time
constexpr uint8_t kRate100Gbps = 16;  // IBV_RATE_100_GBPS
constexpr uint8_t kSixBits = 63;

}  // namespace

ib_uverbs_ah_attr ToUser(const transport::AddressVector& address) {
  ib_uverbs_ah_attr user = {};
  std::copy(address.destination_gid.bytes.begin(), address.destination_gid.bytes.end(),
            user.grh.dgid);
  user.grh.flow_label = address.flow_label;
  user.grh.sgid_index = address.source_gid_index;
  user.grh.hop_limit = address.hop_limit;
  user.grh.traffic_class = address.traffic_class;
  user.sl = address.service_level;
  user.static_rate = address.static_rate;
  user.is_global = 1;
  user.port_num = address.port_num;
  return user;
}

ib_uverbs_qp_attr ToUser(const transport::QpAttributes& attributes, uint32_t mask) {
  using Mask = transport::QpAttributeMask;
  ib_uverbs_qp_attr user = {};
  user.qp_attr_mask = mask;
  user.qp_state = static_cast<uint32_t>(attributes.state);
  user.path_mtu = static_cast<uint32_t>(attributes.path_mtu);
  user.path_mig_state = static_cast<uint32_t>(attributes.migration_state);
  user.qkey = attributes.qkey;
  user.rq_psn = attributes.rq_psn.value();
  user.sq_psn = attributes.sq_psn.value();
  user.dest_qp_num = attributes.destination_qpn.value;
  user.qp_access_flags = attributes.access.bits();
  if ((mask & Mask::kAddressVector) != 0) user.ah_attr = ToUser(attributes.address);
  if ((mask & Mask::kAlternatePath) != 0) user.alt_ah_attr = ToUser(attributes.alternate_address);
  user.pkey_index = attributes.pkey_index;
  user.alt_pkey_index = attributes.alternate_pkey_index;
  user.max_rd_atomic = attributes.max_read_atomic;
  user.max_dest_rd_atomic = attributes.max_dest_read_atomic;
  user.min_rnr_timer = attributes.min_rnr_timer;
  user.port_num = attributes.port_num;
  user.timeout = attributes.timeout;
  user.retry_cnt = attributes.retry_count;
  user.rnr_retry = attributes.rnr_retry;
  user.alt_port_num = attributes.alternate_port_num;
  user.alt_timeout = attributes.alternate_timeout;
  return user;
}

ib_user_path_rec ToUser(const transport::cm::Path& path) {
  const transport::AddressVector& address = path.address;
  ib_user_path_rec user = {};
  std::copy(address.destination_gid.bytes.begin(), address.destination_gid.bytes.end(), user.dgid);
  std::copy(path.source_gid.bytes.begin(), path.source_gid.bytes.end(), user.sgid);
  user.flow_label = htobe32(address.flow_label);
  user.reversible = 1;
  user.mtu = static_cast<uint32_t>(path.mtu);
  user.pkey = htobe16(path.pkey);
  user.hop_limit = address.hop_limit;
  user.traffic_class = address.traffic_class;
  user.numb_path = 1;
  user.sl = address.service_level;
  user.mtu_selector = kExactly;
  user.rate_selector = kExactly;
  user.rate = kRate100Gbps;
  user.packet_life_time_selector = kExactly;
  user.packet_life_time = path.packet_life_time;
  return user;
}

ib_path_rec_data ToPathRecord(const transport::cm::Path& path) {
  const transport::AddressVector& address = path.address;
  // 0 service id, 8 dgid, 24 sgid, 40 dlid, 42 slid, 44 flow label and hop limit, 48 traffic class,
  // 49 reversible and number of paths, 50 P_Key, 52 QoS class and service level, 54 MTU, 55 rate,
  // 56 packet life time, each after a selector of two bits.
  std::array<uint8_t, sizeof(ib_path_rec_data::path_rec)> record{};
  std::copy(address.destination_gid.bytes.begin(), address.destination_gid.bytes.end(), &record[8]);
  std::copy(path.source_gid.bytes.begin(), path.source_gid.bytes.end(), &record[24]);
  const uint32_t flow = htobe32(address.flow_label << 8 | address.hop_limit);
  std::memcpy(&record[44], &flow, sizeof flow);
  record[48] = address.traffic_class;
  record[49] = 0x80 | 1;
  record[50] = static_cast<uint8_t>(path.pkey >> 8);
  record[51] = static_cast<uint8_t>(path.pkey);
  record[53] = address.service_level;
  record[54] = static_cast<uint8_t>(kExactly << 6 | static_cast<int>(path.mtu));
  record[55] = kExactly << 6 | kRate100Gbps;
  record[56] = static_cast<uint8_t>(kExactly << 6 | (path.packet_life_time & kSixBits));

  ib_path_rec_data user = {};
  user.flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
  std::memcpy(user.path_rec, record.data(), record.size());
  return user;
}

}  // namespace uroce::verbs::rdma_cm
