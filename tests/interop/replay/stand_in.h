#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "tests/interop/replay/flow.h"
#include "transport/endpoint.h"

namespace uroce::interop {

// An endpoint of ours with one queue pair, in the place of a port in a capture: the same addresses,
// the same queue pair number, the same PSNs, and memory under the same keys at the same addresses.
// Time is that of the capture.
class StandIn {
 public:
  struct Range {
    uint64_t begin = UINT64_MAX;
    uint64_t end = 0;

    void Include(uint64_t address, uint64_t length);
  };
  struct Options {
    transport::Service service{};
    FlowEnd self;
    FlowEnd peer;
    transport::Mtu mtu{};
    transport::Psn rq_psn{};
    transport::Psn sq_psn{};
    uint32_t qkey = 0;
    uint8_t timeout = 14;  // 67 ms, what the test programs of rdma-core and perftest set
    transport::Time start{};
    std::map<transport::RKey, Range> remote_memory{};  // that the peer may use, by the keys it uses
    size_t local_bytes = 0;                            // for our own work requests
  };

  // The queue pair's number, also where the capture does not tell it.
  static transport::Qpn OwnQpn(const FlowEnd& self);

  explicit StandIn(const Options& options);
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;

  // Runs the timers that are due by then, at the times they are due.
  void AdvanceTo(transport::Time time);
  // A frame arrives now.
  transport::DropReason Receive(std::span<const uint8_t> frame);
  // What was sent since it was last asked.
  std::vector<CapturedFrame> TakeSent();
  std::vector<transport::Completion> TakeCompletions();

  transport::QueuePair& qp() { return *qp_; }
  transport::Psn expected_psn() const { return qp_->Query().rq_psn; }
  const transport::AddressVector& peer_address() const { return peer_address_; }

  // Memory of the peer's RETHs; nullptr where none is.
  uint8_t* Remote(transport::RKey key, uint64_t address, uint64_t length);
  uint8_t* local() { return local_.data(); }
  // `length` bytes of local memory from `offset`.
  transport::ScatterGatherEntry Local(size_t offset, uint32_t length) const;

 private:
  static transport::EndpointConfig Config(const Options& options);
  void RegisterRemote(const std::map<transport::RKey, Range>& ranges);
  void Connect(const Options& options);
  void Transmit();

  transport::Endpoint endpoint_;
  std::vector<std::vector<uint8_t>> remote_;
  std::vector<uint8_t> local_;
  transport::LKey local_key_;
  std::unique_ptr<transport::CompletionQueue> cq_;
  transport::AddressVector peer_address_;
  transport::QueuePair* qp_ = nullptr;
  transport::Time now_;
  std::vector<CapturedFrame> sent_;
};

}  // namespace uroce::interop
