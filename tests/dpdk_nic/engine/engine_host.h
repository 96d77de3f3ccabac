#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dpdk_nic/engine/engine.h"
#include "dpdk_nic/port/packet_port.h"
#include "transport/endpoint.h"

namespace uroce::nic {

// A peer needs this to connect to this end and to read and write its memory.
struct ConnectionInfo {
  transport::Gid gid;
  transport::MacAddress mac{};
  transport::Qpn qpn;
  transport::RKey rkey;
  uint64_t address = 0;
};

// An engine with the objects of a simple program: one memory region with every access right, one
// completion queue, one queue pair.
class EngineHost {
 public:
  static constexpr size_t kMemoryBytes = 1 << 20;
  static constexpr uint32_t kQueueDepth = 256;

  // Makes an engine with a port to TestFabric(). `wrap` may put a port around that port.
  using WrapPort = std::function<std::unique_ptr<PacketPort>(std::unique_ptr<PacketPort>)>;
  explicit EngineHost(Engine::Options options = {}, WrapPort wrap = {});
  // The same in another fabric.
  explicit EngineHost(const std::string& fabric, Engine::Options options = {}, WrapPort wrap = {});
  // Uses the engine of another owner.
  explicit EngineHost(Engine& engine);
  ~EngineHost();

  Engine& engine() { return engine_; }
  // The peer may read and write it, too. Frames in memory that is mapped twice order the peer's
  // accesses with the test's, which a race detector cannot see; so this takes the engine's lock for
  // a moment. Call Publish, which does the same, after writing.
  std::vector<uint8_t>& memory();
  void Publish() { memory(); }
  transport::CompletionQueue& cq() { return *cq_; }
  transport::QpState state();

  // Replaces the queue pair by a new one in RESET.
  void ReplaceQueuePair();
  ConnectionInfo info();
  // Longer than a loaded machine needs: 34 s with all retries.
  static constexpr uint8_t kLongTimeout = 20;
  // Moves the queue pair to RTS, whether or not there is a path to the peer. `timeout` is the
  // exponent of the ACK timeout; 0: lost packets are never sent again.
  void Connect(const ConnectionInfo& peer, uint8_t timeout = kLongTimeout, uint8_t retry_count = 7);

  // One work request on `length` bytes at `offset` of the memory of both ends.
  transport::Status Post(transport::SendOpcode opcode, size_t offset, uint32_t length,
                         uint64_t wr_id = 0);
  transport::Status PostReceive(size_t offset, uint32_t length, uint64_t wr_id = 0);
  // Asks for one completion event.
  void Arm();

  // As a program that spins on ibv_poll_cq: drives the engine until `count` completions have come,
  // or a generous time has passed.
  std::vector<transport::Completion> Poll(size_t count);
  // As a program that looks at its queue now and then: never drives the engine.
  std::vector<transport::Completion> WaitWithoutDriving(size_t count);

 private:
  std::vector<transport::Completion> Collect(size_t count, const std::function<void()>& idle);

  void CreateObjects();
  PacketPort::PathState PreparePath();

  std::unique_ptr<Engine> owned_engine_;
  Engine& engine_;
  std::vector<uint8_t> memory_;
  transport::LKey key_;
  std::unique_ptr<transport::CompletionQueue> cq_;
  transport::QueuePair* qp_ = nullptr;
  ConnectionInfo peer_;
};

// Two hosts, connected. The links of a fabric lose nothing, so lost packets are never sent again: a
// retry would hide a loss.
struct EnginePair {
  explicit EnginePair(std::function<Engine::Options()> options = {});

  EngineHost a;
  EngineHost b;
};

// Connects two hosts of this process.
void ConnectBoth(EngineHost& a, EngineHost& b, uint8_t timeout = 0);

}  // namespace uroce::nic
