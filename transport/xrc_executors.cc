#include "transport/xrc_executors.h"

#include "transport/endpoint.h"
#include "transport/qp/xrc_relay.h"

namespace uroce::transport {
namespace {

// The target has checked the access flags of its own.
constexpr AccessFlags kAnyAccess{~uint32_t{0}};

}  // namespace

DropReason XrcExecutors::OnPacket(Time now, const Packet& packet, QueuePair*& receiver) {
  const Qpn target = XrcTargetOf(packet);
  const auto found = executors_.find(target);
  if (const auto change = ReadXrcStreamChange(packet)) {
    if (change->target != target) return DropReason::kForeignSource;
    const bool is_known = found != executors_.end() && found->second.epoch == change->epoch;
    if (found != executors_.end() && is_known == (change->begins == 0)) End(found);
    if (change->begins != 0 && !is_known) Begin(packet, *change);
    return DropReason::kNone;
  }
  if (found == executors_.end()) return DropReason::kUnknownQp;
  receiver = found->second.qp;
  return receiver->OnPeersPacket(now, packet);
}

// A target of a domain that is not shared with us gets a queue pair, too: one without shared
// receive queues, which refuses its requests.
void XrcExecutors::Begin(const Packet& packet, const XrcStreamChange& change) {
  const auto domain = domains_.find(change.key);
  const bool is_stranger = domain == domains_.end();
  if (!HasRoom(packet.from, is_stranger)) return;
  QueuePair* const qp = Create(packet, change, is_stranger ? XrcDomainId{} : domain->second);
  if (qp == nullptr) return;
  executors_[change.target] = {.qp = qp, .epoch = change.epoch, .is_stranger = is_stranger};
}

bool XrcExecutors::HasRoom(Route route, bool is_stranger) const {
  const Qpn first{BlockOf(route) * kMaxQps};
  size_t count = 0;
  for (auto it = executors_.lower_bound(first);
       it != executors_.end() && BlockOf(it->first) == BlockOf(route); ++it) {
    if (it->second.is_stranger == is_stranger) ++count;
  }
  return count < (is_stranger ? kMaxStrangersOfProcess : kMaxOfProcess);
}

QueuePair* XrcExecutors::Create(const Packet& packet, const XrcStreamChange& change,
                                XrcDomainId domain) {
  const QpInitAttributes init = {
      .type = QpType::kXrcReceive, .xrc_domain = domain, .reported_qpn = change.target};
  QueuePair* qp = nullptr;
  if (endpoint_.CreateQueuePair(init, &qp) != Status::kOk) return nullptr;
  if (Connect(*qp, packet, change)) return qp;
  (void)endpoint_.DestroyQueuePair(qp);
  return nullptr;
}

bool XrcExecutors::Connect(QueuePair& qp, const Packet& packet, const XrcStreamChange& change) {
  using M = QpAttributeMask;
  QpAttributes a;
  a.state = QpState::kInit;
  a.port_num = 1;
  a.access = kAnyAccess;
  if (qp.Modify(a, M::kState | M::kPkeyIndex | M::kPort | M::kAccessFlags) != Status::kOk) {
    return false;
  }
  a.state = QpState::kReadyToReceive;
  a.path_mtu = static_cast<Mtu>(change.mtu);
  a.destination_qpn = change.target;
  a.rq_psn = packet.psn;
  a.max_dest_read_atomic = XrcRelay::kMaxUnansweredResponses;
  a.address = {.destination_gid = change.gid, .destination_mac = packet.flow.source_mac};
  return qp.Modify(a, M::kState | M::kAddressVector | M::kPathMtu | M::kDestinationQpn | M::kRqPsn |
                          M::kMaxDestReadAtomic | M::kMinRnrTimer) == Status::kOk;
}

void XrcExecutors::OnProcessGone(Route route) {
  const Qpn first{BlockOf(route) * kMaxQps};
  auto it = executors_.lower_bound(first);
  while (it != executors_.end() && BlockOf(it->first) == BlockOf(route)) it = End(it);
}

XrcExecutors::Executors::iterator XrcExecutors::End(Executors::iterator executor) {
  (void)endpoint_.DestroyQueuePair(executor->second.qp);
  return executors_.erase(executor);
}

}  // namespace uroce::transport
