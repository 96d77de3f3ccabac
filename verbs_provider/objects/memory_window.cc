#include "verbs_provider/objects/memory_window.h"

#include <cerrno>
#include <memory>
#include <optional>

#include "verbs_provider/base/c_boundary.h"
#include "verbs_provider/data_path/work_requests.h"
#include "verbs_provider/device/context.h"
#include "verbs_provider/objects/queue_pair.h"

namespace uroce::verbs {

ibv_mw* AllocMw(ibv_pd* verbs, ibv_mw_type type) {
  return ReturningObject<ibv_mw>([&](ibv_mw*& out) {
    if (const int error = CheckHandle<ProtectionDomain>(verbs)) return error;
    ProtectionDomain& pd = ProtectionDomain::From(verbs);
    if (RawValue(type) != IBV_MW_TYPE_1 && RawValue(type) != IBV_MW_TYPE_2) return EINVAL;

    pd.device->engine_choice().Unite();  // a bind changes the memory table of all engines
    auto mw = std::make_unique<MemoryWindow>();
    PendingHandle handle(Context::From(verbs->context).objects(), *mw);
    const std::optional<transport::RKey> key =
        pd.device->WithMemory([&](transport::MemoryTable& memory) {
          return memory.AllocateWindow(pd.id, static_cast<transport::WindowType>(type));
        });
    if (!key) return ENOMEM;
    pd.users.Add();
    mw->pd = &pd;
    mw->verbs = {.context = verbs->context,
                 .pd = verbs,
                 .rkey = key->value,
                 .handle = handle.Keep(),
                 .type = type};
    out = &mw.release()->verbs;
    return 0;
  });
}

transport::Status RemoveFromTransport(MemoryWindow& mw) {
  // The application may have changed verbs.rkey, but only its tag, which does not matter here.
  return mw.pd->device->WithMemory([&](transport::MemoryTable& memory) {
    return memory.DeallocateWindow(transport::RKey{mw.verbs.rkey});
  });
}

int DeallocMw(ibv_mw* verbs) {
  return ReturningErrno([&] {
    if (const int error = CheckHandle<MemoryWindow>(verbs)) return error;
    MemoryWindow& mw = MemoryWindow::From(verbs);
    const auto status = RemoveFromTransport(mw);
    if (status != transport::Status::kOk) return static_cast<int>(status);
    Context::From(verbs->context).objects().Remove(verbs->handle);
    mw.pd->users.Remove();
    delete &mw;
    return 0;
  });
}

int BindMw(ibv_qp* qp_verbs, ibv_mw* mw, ibv_mw_bind* bind) {
  const QueuePair& qp = QueuePair::From(qp_verbs);
  return SettingErrno([&] {
    if (qp.device->lost_by_fork()) return EIO;
    // A window of type 2 is bound by a work request (ibv_post_send).
    if (mw->type != IBV_MW_TYPE_1) return EINVAL;
    const uint32_t new_rkey = ibv_inc_rkey(mw->rkey);
    transport::SendWorkRequest request;
    request.wr_id = bind->wr_id;
    if (const int error = SetBinding(mw, new_rkey, bind->bind_info, request)) return error;
    if (const int error = ApplySendFlags(bind->send_flags, request)) return error;
    request.inline_data = false;

    const nic::Engine::Verb verb(*qp.engine);
    const transport::Status status = qp.transport->PostSend(request);
    if (status == transport::Status::kOk) mw->rkey = new_rkey;
    return static_cast<int>(status);
  });
}

}  // namespace uroce::verbs
