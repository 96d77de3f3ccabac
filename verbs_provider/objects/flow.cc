#include "verbs_provider/objects/flow.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "verbs_provider/base/c_boundary.h"
#include "verbs_provider/base/flow_specs.h"
#include "verbs_provider/device/context.h"

namespace uroce::verbs {
namespace {

int CheckType(const QueuePair& qp) {
  switch (RawValue(qp.verbs.qp.qp_type)) {
    case IBV_QPT_RAW_PACKET:
      return 0;
    case IBV_QPT_UD:
      return EOPNOTSUPP;
    default:
      return EINVAL;
  }
}

}  // namespace

ibv_flow* CreateFlow(ibv_qp* verbs, ibv_flow_attr* attr) {
  return ReturningObject<ibv_flow>([&](ibv_flow*& out) {
    if (const int error = CheckHandle<QueuePair>(verbs)) return error;
    QueuePair& qp = QueuePair::From(verbs);
    if (const int error = CheckType(qp)) return error;
    auto flow = std::make_unique<Flow>();
    PendingHandle handle(Context::From(verbs->context).objects(), *flow);
    flow->qp = &qp;
    flow->verbs.context = verbs->context;
    if (const int error = ToFlowRule(*attr, flow->rule)) return error;

    nic::Engine& engine = *qp.engine;
    const nic::Engine::Verb verb(engine);
    if (qp.flows.size() == qp.flows.capacity()) qp.flows.reserve(2 * qp.flows.size() + 1);
    const auto id = engine.frame_watch(verb).AddFlow(flow->rule, *qp.transport);
    if (!id) return ENOMEM;
    flow->id = *id;
    flow->verbs.handle = handle.Keep();
    out = &flow->verbs;
    qp.flows.push_back(std::move(flow));
    return 0;
  });
}

int DestroyFlow(ibv_flow* verbs) {
  return ReturningErrno([&] {
    if (const int error = CheckHandle<Flow>(verbs)) return error;
    Context::From(verbs->context).objects().Remove(verbs->handle);
    Flow& flow = Flow::From(verbs);
    QueuePair& qp = *flow.qp;
    nic::Engine& engine = *qp.engine;
    const nic::Engine::Verb verb(engine);
    engine.frame_watch(verb).RemoveFlow(flow.id, flow.rule);
    std::erase_if(qp.flows, [&](const auto& own) { return own.get() == &flow; });
    return 0;
  });
}

bool HasFlows(const QueuePair& qp) {
  const nic::Engine::Verb verb(*qp.engine);
  return !qp.flows.empty();
}

void RemoveFlows(QueuePair& qp) {
  nic::Engine& engine = *qp.engine;
  const nic::Engine::Verb verb(engine);
  for (const auto& flow : qp.flows) engine.frame_watch(verb).RemoveFlow(flow->id, flow->rule);
}

}  // namespace uroce::verbs
