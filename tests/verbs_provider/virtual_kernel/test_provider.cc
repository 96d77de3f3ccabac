// A provider with just enough verbs for ibv_devinfo and the event tests: no queue pairs, no data
// path.

#include <infiniband/verbs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/verbs_provider/virtual_kernel/test_description.h"
#include "verbs_provider/abi/events.h"
#include "verbs_provider/abi/provider_registration.h"
#include "verbs_provider/virtual_kernel/device/device_description.h"

namespace uroce::verbs {
namespace {

struct TestContext {
  ibv_context* context;
};

struct TestCq {
  ibv_cq cq;
  uint32_t posted_events;
};

int QueryDevice(ibv_context* /*context*/, const ibv_query_device_ex_input* /*input*/,
                ibv_device_attr_ex* attr, size_t attr_size) {
  ibv_device_attr_ex full = {};
  snprintf(full.orig_attr.fw_ver, sizeof(full.orig_attr.fw_ver), "test-1");
  full.orig_attr.vendor_id = 0xfeed;
  full.orig_attr.phys_port_cnt = 1;
  full.orig_attr.max_qp = 77;
  full.phys_port_cnt_ex = 1;
  memcpy(attr, &full, attr_size < sizeof(full) ? attr_size : sizeof(full));
  return 0;
}

int QueryPort(ibv_context* /*context*/, uint8_t port, ibv_port_attr* attr) {
  if (port != 1) return EINVAL;
  attr->state = IBV_PORT_ACTIVE;
  attr->max_mtu = IBV_MTU_4096;
  attr->active_mtu = IBV_MTU_1024;
  attr->gid_tbl_len = 4;
  attr->pkey_tbl_len = 1;
  attr->phys_state = 5;
  attr->link_layer = IBV_LINK_LAYER_ETHERNET;
  return 0;
}

ibv_pd* AllocPd(ibv_context* /*context*/) {
  return static_cast<ibv_pd*>(calloc(1, sizeof(ibv_pd)));
}

int DeallocPd(ibv_pd* pd) {
  free(pd);
  return 0;
}

ibv_cq* CreateCq(ibv_context* /*context*/, int cqe, ibv_comp_channel* /*channel*/, int /*vector*/) {
  auto* cq = static_cast<TestCq*>(calloc(1, sizeof(TestCq)));
  cq->cq.cqe = cqe;
  return &cq->cq;
}

// Stands in for a completion: arming raises an event right away.
int RequestNotify(ibv_cq* cq, int /*solicited_only*/) {
  auto* test_cq = reinterpret_cast<TestCq*>(cq);
  if (!abi::PostCompletionEvent(cq->channel, cq)) return ENOBUFS;
  ++test_cq->posted_events;
  return 0;
}

int DestroyCq(ibv_cq* cq) {
  auto* test_cq = reinterpret_cast<TestCq*>(cq);
  if (cq->channel != nullptr) {
    test_cq->posted_events -= abi::PurgeCompletionEvents(cq->channel, cq);
    pthread_mutex_lock(&cq->mutex);
    while (cq->comp_events_completed != test_cq->posted_events) {
      pthread_cond_wait(&cq->cond, &cq->mutex);
    }
    pthread_mutex_unlock(&cq->mutex);
  }
  free(test_cq);
  return 0;
}

ibv_qp* CreateQp(ibv_context* context, ibv_qp_init_attr_ex* attr) {
  auto* qp = static_cast<abi::VerbsQp*>(calloc(1, sizeof(abi::VerbsQp)));
  qp->qp.context = context;
  qp->qp.pd = attr->pd;
  qp->qp.qp_num = 0x1234;
  if ((attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0) abi::MarkExtendedQp(*qp);
  return &qp->qp;
}

int DestroyQp(ibv_qp* qp) {
  free(qp);
  return 0;
}

void* OpenContext(ibv_context* context) {
  context->num_comp_vectors = 2;
  if (getenv("TEST_PROVIDER_REFUSES") != nullptr) {
    errno = ENXIO;
    return nullptr;
  }
  // An event for ibv_get_async_event to find.
  if (!abi::PostAsyncEvent(context, IBV_EVENT_PORT_ACTIVE, 1)) return nullptr;
  return new TestContext{context};
}

void CloseContext(ibv_context* context, void* object) {
  auto* test_context = static_cast<TestContext*>(object);
  if (test_context->context != context) abort();
  delete test_context;
}

[[gnu::constructor]] void RegisterForkHandler() { abi::RegisterForkHandler(); }

int Register() {
  abi::Provider provider;
  provider.name = "uroce-test";
  provider.drives_device = [](const char* name) { return strcmp(name, "uroce0") == 0; };
  provider.open_context = OpenContext;
  provider.close_context = CloseContext;
  provider.ops.query_device_ex = QueryDevice;
  provider.ops.query_port = QueryPort;
  provider.ops.alloc_pd = AllocPd;
  provider.ops.dealloc_pd = DeallocPd;
  provider.ops.create_cq = CreateCq;
  provider.ops.req_notify_cq = RequestNotify;
  provider.ops.destroy_cq = DestroyCq;
  provider.ops.create_qp_ex = CreateQp;
  provider.ops.destroy_qp = DestroyQp;
  const std::string error = abi::RegisterProvider(provider);
  if (error.empty()) return 0;
  fprintf(stderr, "uroce-test: %s\n", error.c_str());
  return EPROTONOSUPPORT;
}

}  // namespace
}  // namespace uroce::verbs

extern "C" __attribute__((visibility("default"))) uint32_t uroce_device_changes() { return 0; }

extern "C" __attribute__((visibility("default"))) int uroce_describe_device(
    uroce_device_description* description) {
  if (description->struct_bytes != sizeof(*description)) return EINVAL;
  uroce::verbs::DescribeTestDevice(*description);
  return 0;
}

extern "C" __attribute__((visibility("default"))) void uroce_before_end() {
  // Seen by device_behavior.
  constexpr char kSaid[] = "before the end\n";
  if (getenv("TEST_PROVIDER_TELLS_THE_END") == nullptr) return;
  if (write(STDERR_FILENO, kSaid, sizeof kSaid - 1) < 0) abort();
}

extern "C" __attribute__((visibility("default"))) int uroce_register_provider() {
  return uroce::verbs::Register();
}
