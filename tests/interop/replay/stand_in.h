#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "tests/interop/replay/flow.h"
#include "transport/endpoint.h"

namespace uroce::transport::interop {

// An endpoint of ours with one queue pair, in the place of a port in a capture: with the same
// addresses, QPN and PSNs, and memory under the same keys at the same addresses. Runs in the time
// of the capture.
class StandIn {
 public:
  struct Range {
    uint64_t begin = UINT64_MAX;
    uint64_t end = 0;

    void Include(uint64_t address, uint64_t length);
  };
  struct Options {
    Service service{};
    FlowEnd self;
    FlowEnd peer;
    Mtu mtu{};
    Psn rq_psn{};
    Psn sq_psn{};
    uint32_t qkey = 0;
    uint8_t timeout = 14;  // 67 ms, as in the test programs of rdma-core and perftest
    Time start{};
    std::map<RKey, Range> remote_memory{};  // for the peer, by its keys
    size_t local_bytes = 0;                 // for our own work requests
  };

  // The QPN of the stand-in; a made-up one if the capture does not show it.
  static Qpn OwnQpn(const FlowEnd& self);

  explicit StandIn(const Options& options);
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;

  // Runs the timers that are due by `time`, each at its own time.
  void AdvanceTo(Time time);
  // Handles a frame that arrives now.
  DropReason Receive(std::span<const uint8_t> frame);
  // The frames sent since the last call.
  std::vector<CapturedFrame> TakeSent();
  std::vector<Completion> TakeCompletions();

  QueuePair& qp() { return *qp_; }
  Psn expected_psn() const { return qp_->Query().rq_psn; }
  const AddressVector& peer_address() const { return peer_address_; }

  // The memory at an address of the peer's RETHs; nullptr if there is none.
  uint8_t* Remote(RKey key, uint64_t address, uint64_t length);
  uint8_t* local() { return local_.data(); }
  // `length` bytes of local memory from `offset`.
  ScatterGatherEntry Local(size_t offset, uint32_t length) const;

 private:
  static EndpointConfig Config(const Options& options);
  void RegisterRemote(const std::map<RKey, Range>& ranges);
  void Connect(const Options& options);
  void Transmit();

  Endpoint endpoint_;
  std::vector<std::vector<uint8_t>> remote_;
  std::vector<uint8_t> local_;
  LKey local_key_;
  std::unique_ptr<CompletionQueue> cq_;
  AddressVector peer_address_;
  QueuePair* qp_ = nullptr;
  Time now_;
  std::vector<CapturedFrame> sent_;
};

}  // namespace uroce::transport::interop
