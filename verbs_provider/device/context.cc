#include "verbs_provider/device/context.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/counters.h"
#include "transport/endpoint.h"
#include "transport/limits.h"
#include "verbs_provider/abi/newer_verbs.h"
#include "verbs_provider/base/c_boundary.h"
#include "verbs_provider/base/identity.h"
#include "verbs_provider/objects/address_handle.h"

namespace uroce::verbs {
namespace {

// MEM_MGT_EXTENSIONS stands for send with invalidate and local invalidate, TYPE_2B for windows that
// are tied to a queue pair and a protection domain.
constexpr uint32_t kCapabilities =
    IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR | IBV_DEVICE_AUTO_PATH_MIG |
    IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_UD_AV_PORT_ENFORCE |
    IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_MEM_WINDOW |
    IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_PORT_ACTIVE_EVENT |
    IBV_DEVICE_XRC;

uint32_t Capabilities(const Device& device) {
  return kCapabilities |
         (device.carries_ethernet() ? uint32_t{IBV_DEVICE_MANAGED_FLOW_STEERING} : 0);
}

void FillAttributes(const Device& device, ibv_device_attr& attr) {
  std::strncpy(attr.fw_ver, kFirmwareVersion, sizeof attr.fw_ver - 1);
  attr.node_guid = htobe64(NodeGuid(device.mac()));
  attr.sys_image_guid = attr.node_guid;
  attr.max_mr_size = UINT64_MAX;
  attr.page_size_cap = ~uint64_t{4095};
  attr.vendor_id = kVendorId;
  attr.vendor_part_id = kVendorPartId;
  const auto max_qp = static_cast<int>(device.max_queue_pairs());
  attr.max_qp = max_qp;
  attr.max_qp_wr = transport::kMaxQpWorkRequests;
  attr.device_cap_flags = Capabilities(device);
  attr.max_sge = transport::kMaxSges;
  attr.max_sge_rd = transport::kMaxSges;  // Linux: entries of an RDMA READ
  attr.max_cq = transport::kMaxCqs;
  attr.max_cqe = transport::kMaxCqEntries;
  attr.max_mr = transport::kMaxMemoryRegions;
  attr.max_pd = transport::kMaxProtectionDomains;
  attr.max_qp_rd_atom = transport::kMaxReadAtomics;
  attr.max_res_rd_atom = transport::kMaxReadAtomics * max_qp;
  attr.max_qp_init_rd_atom = transport::kMaxReadAtomics;
  attr.atomic_cap = IBV_ATOMIC_HCA;
  attr.max_mw = transport::kMaxMemoryRegions;  // windows and regions share one table
  attr.max_raw_ethy_qp = device.carries_ethernet() ? max_qp : 0;
  attr.max_mcast_grp = transport::kMaxMulticastGroups;
  attr.max_mcast_qp_attach = transport::kMaxMulticastMembers;
  attr.max_total_mcast_qp_attach = attr.max_mcast_grp * attr.max_mcast_qp_attach;
  attr.max_ah = kMaxAddressHandles;
  attr.max_srq = transport::kMaxSrqs;
  attr.max_srq_wr = transport::kMaxSrqWorkRequests;
  attr.max_srq_sge = transport::kMaxSges;
  attr.max_pkeys = static_cast<uint16_t>(device.pkeys().size());
  attr.local_ca_ack_delay = transport::kLocalCaAckDelay;
  attr.phys_port_cnt = 1;
  // The rest is zero: there are no reliable datagrams and no FMRs.
}

// Port counters saturate; they do not wrap.
uint32_t Saturated(uint64_t count) {
  return static_cast<uint32_t>(std::min<uint64_t>(count, UINT32_MAX));
}

ibv_device_attr_ex Attributes(const Device& device) {
  ibv_device_attr_ex attr = {};
  FillAttributes(device, attr.orig_attr);
  // All memory is on demand: the processor accesses it for us and takes the page faults.
  attr.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
  constexpr uint32_t kDatagram =
      IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
  auto& odp_caps = attr.odp_caps.per_transport_caps;
  odp_caps.ud_odp_caps = kDatagram;
  odp_caps.uc_odp_caps = kDatagram | IBV_ODP_SUPPORT_WRITE;
  odp_caps.rc_odp_caps = kDatagram | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
                         IBV_ODP_SUPPORT_ATOMIC | abi::kOdpSupportFlush |
                         abi::kOdpSupportAtomicWrite;
  attr.xrc_odp_caps = odp_caps.rc_odp_caps;
  // No FLUSH_PERSISTENT: the memory of this host does not outlive a loss of power.
  attr.device_cap_flags_ex =
      Capabilities(device) | abi::kDeviceFlushGlobal | abi::kDeviceAtomicWrite;
  // Timestamps are nanoseconds.
  attr.completion_timestamp_mask = UINT64_MAX;
  attr.hca_core_clock = 1'000'000;  // kHz
  attr.packet_pacing_caps = {.qp_rate_limit_min = 1,
                             .qp_rate_limit_max = transport::kMaxRateKbps,
                             .supported_qpts = 1 << IBV_QPT_RC | 1 << IBV_QPT_UC | 1 << IBV_QPT_UD |
                                               1 << IBV_QPT_XRC_SEND};
  // raw_packet_caps are zero: programs handle checksums and VLAN tags themselves.
  if (device.carries_ethernet()) attr.packet_pacing_caps.supported_qpts |= 1 << IBV_QPT_RAW_PACKET;
  attr.cq_mod_caps.max_cq_count = UINT16_MAX;
  attr.cq_mod_caps.max_cq_period = UINT16_MAX;
  attr.max_dm_size = uint64_t{kDeviceMemoryPages} * kDeviceMemoryPageBytes;
  attr.phys_port_cnt_ex = 1;
  return attr;
}

}  // namespace

void* OpenContext(ibv_context* verbs) {
  return ReturningObject<Context>([&](Context*& out) {
    int error = 0;
    std::shared_ptr<Device> device = Device::Open(&error);
    if (device == nullptr) return error;
    // As rdma_rxe and NICs: programs spread their queues over the processors by it.
    verbs->num_comp_vectors = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_CONF)));
    auto context = std::make_unique<Context>(verbs, std::move(device));
    const nic::Engine::Verb verb(context->device().engine());
    ObjectList<Context>& contexts = context->device().followers().contexts;
    contexts.ForEach([&](const Context& other) { context->JoinFileOf(other); });
    contexts.Add(*context);
    out = context.release();
    return 0;
  });
}

void CloseContext(ibv_context* verbs, void* object) {
  const std::unique_ptr<Context> context(static_cast<Context*>(object));
  (void)ReturningErrno([&] {
    Device& device = context->device();
    if (device.lost_by_fork()) return 0;
    std::shared_ptr<ContextObjects> left_behind;
    {
      const nic::Engine::Verb verb(device.engine());
      device.followers().contexts.Remove(*context);
      left_behind = context->LeaveFile();
    }
    if (left_behind != nullptr) left_behind->Abandon();
    AbandonAddressHandles(device, verbs);
    return 0;
  });
}

int QueryDeviceEx(ibv_context* context, const ibv_query_device_ex_input* input,
                  ibv_device_attr_ex* attr, size_t attr_size) {
  return ReturningErrno([&] {
    if (input != nullptr && input->comp_mask != 0) return EINVAL;
    const ibv_device_attr_ex ours = Attributes(Context::From(context).device());
    // The caller's struct may be shorter than ours (ibv_query_device) or longer (a later release).
    const size_t known = std::min(attr_size, sizeof ours);
    std::memcpy(attr, &ours, known);
    std::memset(reinterpret_cast<char*>(attr) + known, 0, attr_size - known);
    return 0;
  });
}

int QueryRtValues(ibv_context* context, ibv_values_ex* values) {
  return ReturningErrno([&] {
    Device& device = Context::From(context).device();
    if (device.lost_by_fork()) return EIO;
    if ((values->comp_mask & ~uint32_t{IBV_VALUES_MASK_RAW_CLOCK}) != 0) return EINVAL;
    // The whole time is in tv_nsec, as in other providers.
    values->raw_clock = {.tv_sec = 0, .tv_nsec = device.engine().Now().ns};
    return 0;
  });
}

int QueryPort(ibv_context* context, uint8_t port_num, ibv_port_attr* attr) {
  return ReturningErrno([&] {
    Device& device = Context::From(context).device();
    if (device.lost_by_fork()) return EIO;
    if (port_num != kPortNumber) return EINVAL;
    using transport::DropReason;
    uint64_t bad_pkeys = 0;
    uint64_t bad_qkeys = 0;
    for (nic::Engine* engine : device.engines().All()) {
      engine->WithEndpoint([&](const transport::Endpoint& endpoint) {
        bad_pkeys += endpoint.counters().drops(DropReason::kBadPkey);
        bad_qkeys += endpoint.counters().drops(DropReason::kBadQkey);
      });
    }
    // Member by member: the caller's struct may be shorter than ours.
    attr->state = device.port_state();
    attr->max_mtu = IBV_MTU_4096;
    attr->active_mtu = device.active_mtu();
    attr->gid_tbl_len = static_cast<int>(kGidTableLength);
    attr->port_cap_flags = kPortCapabilities;
    attr->max_msg_sz = static_cast<uint32_t>(transport::kMaxMessageBytes);
    attr->bad_pkey_cntr = Saturated(bad_pkeys);
    attr->qkey_viol_cntr = Saturated(bad_qkeys);
    attr->pkey_tbl_len = static_cast<uint16_t>(device.pkeys().size());
    attr->max_vl_num = 1;
    attr->active_width = kActiveWidth4X;
    attr->active_speed = kActiveSpeedEdr;
    attr->phys_state = PhysicalState(attr->state);
    attr->link_layer = IBV_LINK_LAYER_ETHERNET;
    attr->flags = IBV_QPF_GRH_REQUIRED;
    return 0;
  });
}

int QueryPortSpeed(ibv_context* context, uint32_t port_num, uint64_t* speed) {
  return ReturningErrno([&] {
    if (Context::From(context).device().lost_by_fork()) return EIO;
    if (port_num != kPortNumber) return EINVAL;
    *speed = kRateMbps / 100;
    return 0;
  });
}

}  // namespace uroce::verbs
