#include <cerrno>
#include <cstring>
#include <string>

#include "dpdk_nic/base/log.h"
#include "dpdk_nic/engine/fork_handler.h"
#include "verbs_provider/abi/provider_registration.h"
#include "verbs_provider/base/c_boundary.h"
#include "verbs_provider/base/fork_generation.h"
#include "verbs_provider/data_path/work_requests.h"
#include "verbs_provider/device/context.h"
#include "verbs_provider/device/device.h"
#include "verbs_provider/device/rdma_cm_process.h"
#include "verbs_provider/objects/address_handle.h"
#include "verbs_provider/objects/completion_queue.h"
#include "verbs_provider/objects/device_memory.h"
#include "verbs_provider/objects/flow.h"
#include "verbs_provider/objects/memory_region.h"
#include "verbs_provider/objects/memory_window.h"
#include "verbs_provider/objects/multicast.h"
#include "verbs_provider/objects/protection_domain.h"
#include "verbs_provider/objects/queue_pair.h"
#include "verbs_provider/objects/shared_receive_queue.h"
#include "verbs_provider/objects/xrc_domain.h"
#include "verbs_provider/virtual_kernel/device/device_description.h"

// Makes the provider known to the libibverbs of the process that this library is loaded into.
namespace uroce::verbs {
namespace {

abi::ProviderOps Ops() {
  abi::ProviderOps ops = {};
  ops.query_device_ex = QueryDeviceEx;
  ops.query_port = QueryPort;
  ops.query_port_speed = QueryPortSpeed;
  ops.query_rt_values = QueryRtValues;
  ops.alloc_pd = AllocPd;
  ops.dealloc_pd = DeallocPd;
  ops.alloc_parent_domain = AllocParentDomain;
  ops.alloc_td = AllocTd;
  ops.dealloc_td = DeallocTd;
  ops.reg_mr = RegMr;
  ops.rereg_mr = ReregMr;
  ops.dereg_mr = DeregMr;
  ops.advise_mr = AdviseMr;
  ops.alloc_dm = AllocDm;
  ops.free_dm = FreeDm;
  ops.reg_dm_mr = RegDmMr;
  ops.alloc_null_mr = AllocNullMr;
  ops.alloc_mw = AllocMw;
  ops.dealloc_mw = DeallocMw;
  ops.bind_mw = BindMw;
  ops.import_pd = ImportPd;
  ops.unimport_pd = UnimportPd;
  ops.import_mr = ImportMr;
  ops.unimport_mr = UnimportMr;
  ops.import_dm = ImportDm;
  ops.unimport_dm = UnimportDm;
  ops.create_cq = CreateCq;
  ops.create_cq_ex = CreateCqEx;
  ops.poll_cq = PollCq;
  ops.req_notify_cq = ReqNotifyCq;
  ops.resize_cq = ResizeCq;
  ops.modify_cq = ModifyCq;
  ops.destroy_cq = DestroyCq;
  ops.create_qp = CreateQp;
  ops.create_qp_ex = CreateQpEx;
  ops.open_qp = OpenQp;
  ops.modify_qp = ModifyQp;
  ops.modify_qp_rate_limit = ModifyQpRateLimit;
  ops.query_qp = QueryQp;
  ops.destroy_qp = DestroyQp;
  ops.post_send = PostSend;
  ops.post_recv = PostRecv;
  ops.create_srq = CreateSrq;
  ops.create_srq_ex = CreateSrqEx;
  ops.modify_srq = ModifySrq;
  ops.query_srq = QuerySrq;
  ops.destroy_srq = DestroySrq;
  ops.post_srq_recv = PostSrqRecv;
  ops.get_srq_num = GetSrqNum;
  ops.open_xrcd = OpenXrcd;
  ops.close_xrcd = CloseXrcd;
  ops.create_ah = CreateAh;
  ops.destroy_ah = DestroyAh;
  ops.attach_mcast = AttachMcast;
  ops.detach_mcast = DetachMcast;
  ops.create_flow = CreateFlow;
  ops.destroy_flow = DestroyFlow;
  return ops;
}

bool DrivesDevice(const char* name) { return std::strcmp(name, kDeviceName) == 0; }

__attribute__((constructor)) void RegisterForkHandlers() {
  CountForks();
  Device::RegisterForkHandlers();
  RegisterConnectionManagerForkHandler();
  abi::RegisterForkHandler();
}

int Register() {
  const std::string problem = abi::RegisterProvider({
      .name = "uroce",
      .drives_device = DrivesDevice,
      .open_context = OpenContext,
      .close_context = CloseContext,
      .ops = Ops(),
  });
  if (problem.empty()) return 0;
  nic::Log(nic::LogLevel::kError, problem);
  return EPROTONOSUPPORT;
}

}  // namespace
}  // namespace uroce::verbs

__attribute__((visibility("default"))) void uroce_before_end() {
  uroce::nic::ForkHandler::FlushAtExit();
}

__attribute__((visibility("default"))) int uroce_register_provider() {
  return uroce::verbs::ReturningErrno(uroce::verbs::Register);
}
