#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "transport/counters.h"
#include "transport/ids.h"
#include "transport/qp/xrc_frames.h"
#include "transport/route.h"
#include "transport/time.h"
#include "transport/wire/packet.h"

namespace uroce::transport {

class Endpoint;
class QueuePair;

// The queue pairs by which XRC targets of other processes of this host use the shared receive
// queues of this process (XrcRelay): one for each target that has sent something. It is an XRC
// target of the domain that both processes have opened, connected to the target that it works for.
// It exists until that one ends its stream, or the process ends.
class XrcExecutors {
 public:
  // Of one other process: as many targets as may send to us, and those without a domain of ours,
  // which are refused.
  static constexpr size_t kMaxOfProcess = 4'096;
  static constexpr size_t kMaxStrangersOfProcess = 16;

  // `endpoint` outlives this object.
  explicit XrcExecutors(Endpoint& endpoint) : endpoint_(endpoint) {}

  // Processes that know the key may use the shared receive queues of the domain, or may not any
  // more.
  void Share(XrcDomainId domain, const XrcKey& key) { domains_[key] = domain; }
  void Unshare(const XrcKey& key) { domains_.erase(key); }

  // A packet for which IsXrcRelayed holds. `receiver` is set to the queue pair that it is for.
  DropReason OnPacket(Time now, const Packet& packet, QueuePair*& receiver);
  void OnProcessGone(Route route);

 private:
  struct Executor {
    QueuePair* qp = nullptr;
    uint64_t epoch = 0;
    bool is_stranger = false;
  };
  using Executors = std::map<Qpn, Executor>;

  void Begin(const Packet& packet, const XrcStreamChange& change);
  bool HasRoom(Route route, bool is_stranger) const;
  QueuePair* Create(const Packet& packet, const XrcStreamChange& change, XrcDomainId domain);
  bool Connect(QueuePair& qp, const Packet& packet, const XrcStreamChange& change);
  Executors::iterator End(Executors::iterator executor);

  Endpoint& endpoint_;
  std::map<XrcKey, XrcDomainId> domains_;
  Executors executors_;  // by the target that each works for
};

}  // namespace uroce::transport
