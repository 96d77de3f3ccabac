#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <source_location>
#include <span>
#include <string_view>
#include <vector>

#include "tests/packet_scripts/packets.h"
#include "transport/endpoint.h"

namespace uroce::transport::packet_scripts {

// One endpoint with one queue pair. The peer is the script: it injects packets, expects
// packets, posts work requests, expects completions, and lets virtual time pass.
//
// What an expectation does not find is reported at the line of the script that has it.
class Script {
 public:
  static constexpr PdId kPd{7};
  static constexpr Qpn kPeerQpn{0x4321};
  static constexpr Gid kOurGid = Gid::FromIpv4({192, 0, 2, 1});
  static constexpr Gid kPeerGid = Gid::FromIpv4({192, 0, 2, 2});
  // Of the alternate path: the third entry of our GID table, and where it leads.
  static constexpr uint8_t kOurOtherGidIndex = 2;
  static constexpr Gid kOurOtherGid = Gid::FromIpv4({198, 51, 100, 1});
  static constexpr Gid kPeerOtherGid = Gid::FromIpv4({198, 51, 100, 2});
  // Registered memory, all kinds of access; `iova` is not where it lies.
  static constexpr uint64_t kIova = 0x10'0000;
  static constexpr size_t kMemoryBytes = 64 * 1024;

  static constexpr uint32_t kQkey = 0x1122'3344;
  // XRC: the domain of a target and of its shared queue, and the queue of the peer.
  static constexpr XrcDomainId kXrcDomain{5};
  static constexpr Srqn kPeerSrqn{0x2'1000};

  struct Options {
    QpType type = QpType::kReliableConnection;
    // An XRC target has one, that requests are for unless they say otherwise.
    bool shared_receive_queue = false;
    Mtu mtu = Mtu::k256;
    Psn first_psn{1'000};        // of our requests
    Psn peers_first_psn{5'000};  // of the peer's
    uint8_t max_read_atomic = 4;
    uint8_t max_dest_read_atomic = 4;
    uint8_t timeout = 14;
    uint8_t retry_count = 7;
    uint8_t rnr_retry = 7;
    uint8_t min_rnr_timer = 12;
    uint32_t queue_depth = 16;
    uint32_t cq_capacity = 128;
    // If not, the peer says at once that it has no credit information, as one with a shared receive
    // queue does: SENDs go out as they are posted.
    bool peer_counts_credits = false;
    bool signal_all = false;
    bool probes = false;  // after a silence, long before the ACK timeout
    AccessFlags qp_access{AccessFlags::kRemoteWrite | AccessFlags::kRemoteRead |
                          AccessFlags::kRemoteAtomic | AccessFlags::kFlushGlobal};
    QpState state = QpState::kReadyToSend;
    std::vector<uint16_t> pkeys{kDefaultPkey};  // of the port
    uint16_t pkey_index = 0;                    // of the queue pair
  };
  using Location = std::source_location;

  Script() : Script(Options()) {}
  explicit Script(const Options& options);
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;
  // Frames and completions that no expectation asked for are failures too.
  ~Script();

  // The peer sends a packet. What the endpoint made of it.
  DropReason Inject(const PacketSpec& spec);
  // The same, and it must have been dropped for this reason.
  void ExpectDropped(DropReason reason, const PacketSpec& spec,
                     Location location = Location::current());
  // The packet as the peer puts it on the wire, and any frame, for what no peer should send. A
  // packet without a destination QPN is for the queue pair of the script.
  std::vector<uint8_t> Frame(const PacketSpec& spec, const Gid& source = kPeerGid,
                             const Gid& destination = kOurGid) const;
  DropReason InjectFrame(std::span<const uint8_t> frame);
  void ExpectFrameDropped(DropReason reason, std::span<const uint8_t> frame,
                          Location location = Location::current());

  // The frame that was taken from the port last, as it is on the wire.
  const std::vector<uint8_t>& last_frame() const { return last_frame_; }
  // The next frame we send is this one. Returns the parsed packet, for what else is in it.
  PacketSpec ExpectSent(const PacketSpec& expected, Location location = Location::current());
  void ExpectNothingSent(Location location = Location::current());
  // Takes everything that was sent, when it does not matter.
  std::vector<PacketSpec> TakeSent();

  // From now on the port takes no frames, but for one a call of TransmitOne, until it is released.
  void HoldTransmit() { holds_transmit_ = true; }
  void TransmitOne();
  void ReleaseTransmit();

  // From now on completions stay in the queue, until it is released.
  void HoldCompletions() { holds_completions_ = true; }
  void ReleaseCompletions();

  // Lets time pass; timers run at the very time they are due.
  void Advance(Duration duration);
  Time now() const { return now_; }
  void ExpectNoDeadline(Location location = Location::current());

  // Work requests on the registered memory: bytes [offset, offset + length). Receives go to the
  // shared receive queue if there is one; datagrams go to the peer.
  void PostReceive(uint64_t wr_id, uint64_t offset, uint32_t length);
  // Posts two receives. The peer has sent the first packet of a message that needs another one.
  void BeginMessageFor(uint64_t wr_id, uint64_t next_wr_id);
  void PostSend(uint64_t wr_id, uint64_t offset, uint32_t length);
  void PostWrite(uint64_t wr_id, uint64_t offset, uint32_t length);
  void PostRead(uint64_t wr_id, uint64_t offset, uint32_t length);
  void PostFetchAdd(uint64_t wr_id, uint64_t offset, uint64_t add);
  Status Post(SendWorkRequest request, uint64_t offset, uint32_t length);
  // Signaled, and to where the requests above go at the peer.
  static SendWorkRequest Request(uint64_t wr_id, SendOpcode opcode);
  static constexpr uint64_t kPeerAddress = 0xabc'000;
  static constexpr RKey kPeerRkey{0x7700};

  Completion ExpectCompletion(uint64_t wr_id, CompletionStatus status = CompletionStatus::kSuccess,
                              Location location = Location::current());
  // Takes every completion, when it does not matter.
  std::vector<Completion> TakeCompletions();
  void ExpectNoCompletion(Location location = Location::current());

  // ibv_modify_qp of nothing but the state.
  Status MoveTo(QpState state);
  // Takes the queue pair from RESET to options.state with the attributes of the options.
  void Connect();
  void ExpectState(QpState state, Location location = Location::current());
  // The next event is this one, and it is about the object that it has to be about.
  void ExpectEvent(EventType type, Location location = Location::current());
  void ExpectNoEvent(Location location = Location::current());

  uint8_t* memory(uint64_t offset = 0) { return memory_.data() + offset; }
  std::vector<uint8_t> Bytes(uint64_t offset, size_t length) const;
  uint64_t Word(uint64_t offset) const;
  void SetWord(uint64_t offset, uint64_t value);
  static constexpr uint64_t Address(uint64_t offset) { return kIova + offset; }
  RKey rkey() const { return {key_.value}; }
  LKey lkey() const { return key_; }

  Endpoint& endpoint() { return endpoint_; }
  QueuePair& qp() { return *qp_; }
  CompletionQueue& cq() { return *cq_; }
  SharedReceiveQueue& srq() { return *srq_; }
  const AddressVector& peer_address() const { return peer_address_; }
  const Counters& counters() const { return endpoint_.counters(); }
  Psn first_psn() const { return options_.first_psn; }
  Psn peers_first_psn() const { return options_.peers_first_psn; }

 private:
  void ToInit();
  void ToReadyToReceive();
  void ToReadyToSend();
  void FailASend();
  // What comes back in events of this type.
  const void* ContextOf(EventType type) const;
  // What the connection adds to every packet of it.
  PacketSpec Filled(PacketSpec spec, Qpn source, Qpn destination) const;
  // Takes what the endpoint has to send, and its completions.
  void Drain();
  // False if there was nothing.
  bool TakeFrame();

  Options options_;
  Endpoint endpoint_;
  std::vector<uint8_t> memory_;
  LKey key_;
  std::unique_ptr<CompletionQueue> cq_;
  std::unique_ptr<SharedReceiveQueue> srq_;
  AddressVector peer_address_;
  QueuePair* qp_ = nullptr;
  Time now_{1'000'000};
  bool holds_transmit_ = false;
  bool holds_completions_ = false;
  std::deque<PacketSpec> sent_;
  std::vector<uint8_t> last_frame_;
  std::deque<Completion> completions_;
};

}  // namespace uroce::transport::packet_scripts
