#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dpdk_nic/port/faults/fault_scenario.h"
#include "tests/simulation/impairments.h"
#include "tests/simulation/processor.h"
#include "tests/simulation/simulator.h"
#include "tests/simulation/wire.h"
#include "transport/endpoint.h"

namespace uroce::transport::simulation {

struct LinkOptions {
  Mtu mtu = Mtu::k256;
  Psn first_psn{1'000};  // of both ends
  uint8_t timeout = 10;  // 4.2 ms
  uint8_t retry_count = 7;
  uint8_t max_read_atomic = 16;
  bool probes = false;
  Congestion congestion = Congestion::kNone;
  uint32_t reorder_packets = 0;
  uint32_t queue_depth = 16;
  size_t memory_bytes = 1 << 16;
  Impairments impairments;        // of both directions
  nic::FaultScenario scenario;    // directions as the client sees them
  ProcessorShare processor = {};  // of each end
  uint64_t seed = 1;
};

// A client and a server with one reliable connection between them, over a wire in each direction.
// Like a NIC, each sends only when its line is free, so a frame is built with the latest state.
//
//   client  ---- Wire ---->  server
//           <--- Wire -----
//
// The wires may be replaced by a network that several links share (Carrier).
class Link {
 public:
  static constexpr PdId kPd{1};

  // One end, with memory that the peer may read and write.
  struct Host {
    int index = 0;
    std::unique_ptr<Endpoint> endpoint;
    std::vector<uint8_t> memory;
    LKey key;
    std::unique_ptr<CompletionQueue> cq;
    QueuePair* qp = nullptr;
    std::unique_ptr<Wire> wire;  // to the peer; nullptr with a Carrier
    std::unique_ptr<Processor> processor;
    Time wakeup_at = kNever;
    bool waits_for_line = false;

    uint64_t address(size_t offset) const {
      return reinterpret_cast<uint64_t>(memory.data()) + offset;
    }
    Counters counters() const { return endpoint->counters(); }
  };

  struct Observer {
    // `sent`: a frame leaves a host. `delivered`: a host is about to process a frame.
    std::function<void(const Host& from, std::span<const uint8_t> frame)> sent;
    std::function<void(const Host& to, std::span<const uint8_t> frame)> delivered;
    std::function<void(std::span<const uint8_t> frame)> impaired;
    // Something happened at a host: look at its completions here.
    std::function<void(Host& host)> activity;
  };

  // Takes each frame that a host sends, at any rate, and hands it to Receive of the peer later.
  using Carrier = std::function<void(Host& from, std::span<const uint8_t> frame)>;

  Link(const LinkOptions& options, Observer observer);
  // `simulator` outlives the link, and runs its events. Impairments and scenario are not used.
  Link(const LinkOptions& options, Observer observer, Simulator& simulator, Carrier carrier);

  Host& client() { return hosts_[0]; }
  Host& server() { return hosts_[1]; }
  Time now() const { return simulator_.now(); }

  // Posts a request on `length` bytes at `offset` of the client's and the server's memory.
  Status Post(SendOpcode opcode, size_t offset, uint32_t length, uint64_t wr_id = 0);
  Status PostReceive(size_t offset, uint32_t length, uint64_t wr_id = 0);
  // Sends whatever the host has ready. Call after posting.
  void UpdateAfterEvent(Host& host);

  // A frame reaches the host, which takes it when it has a processor.
  void Receive(Host& host, std::span<const uint8_t> frame);

  // Runs the next event; false if there is none.
  bool RunOne() { return simulator_.RunOne(); }

 private:
  void MakeHost(Host& host, const LinkOptions& options, Random& random);
  void Connect(Host& host, const Host& peer, const LinkOptions& options);
  void MakeHosts(const LinkOptions& options, Random& random);
  void MakeWire(Host& from, Host& to, const LinkOptions& options, Random& random);
  void Process(Host& host, std::span<const uint8_t> frame);
  bool WaitsForLine(Host& host);
  void Transmit(Host& host);
  void ScheduleDeadline(Host& host);
  void WakeUpAt(Time time, Host& host);
  void OnDeadline(Host& host);

  std::unique_ptr<Simulator> own_simulator_;
  Simulator& simulator_;
  Observer observer_;
  Carrier carrier_;
  nic::FaultInjector faults_;
  std::array<Host, 2> hosts_;
  std::vector<uint8_t> frame_buffer_;
};

}  // namespace uroce::transport::simulation
