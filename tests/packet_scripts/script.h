#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
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
// A failed expectation is reported at its line of the script.
class Script {
 public:
  static constexpr PdId kPd{7};
  static constexpr Qpn kPeerQpn{0x4321};
  static constexpr Gid kOurGid = Gid::FromIpv4({192, 0, 2, 1});
  static constexpr Gid kPeerGid = Gid::FromIpv4({192, 0, 2, 2});
  // The alternate path: the index of its GID in our table, and the GIDs of its two ends.
  static constexpr uint8_t kOurOtherGidIndex = 2;
  static constexpr Gid kOurOtherGid = Gid::FromIpv4({198, 51, 100, 1});
  static constexpr Gid kPeerOtherGid = Gid::FromIpv4({198, 51, 100, 2});
  // Registered memory with every kind of access. `iova` differs from the address of the memory.
  static constexpr uint64_t kIova = 0x10'0000;
  static constexpr size_t kMemoryBytes = 64 * 1024;

  static constexpr uint32_t kQkey = 0x1122'3344;
  // The XRC domain of a target and its shared queue, and the peer's shared receive queue.
  static constexpr XrcDomainId kXrcDomain{5};
  static constexpr Srqn kPeerSrqn{0x2'1000};

  struct Options {
    QpType type = QpType::kReliableConnection;
    // An XRC target has a shared queue, and requests name it unless a script says otherwise.
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
    // If false, the peer reports "no credit information" at once, as a peer with a shared receive
    // queue does: SENDs go out as they are posted.
    bool peer_counts_credits = false;
    bool signal_all = false;
    bool probes = false;           // after a silence, long before the ACK timeout
    uint32_t reorder_packets = 0;  // requests that are kept when they arrive too early
    Congestion congestion = Congestion::kNone;
    PeerFeatures features = 0;  // of which peers on the wire are told, as they are asked for theirs
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
  // Frames and completions that no expectation took are failures too.
  ~Script();

  // The peer sends a packet. Returns the endpoint's verdict.
  DropReason Inject(const PacketSpec& spec);
  // Injects the packet, which must be dropped for this reason.
  void ExpectDropped(DropReason reason, const PacketSpec& spec,
                     Location location = Location::current());
  // Frame() is the packet as the peer puts it on the wire: without a destination QPN it goes to the
  // script's queue pair. InjectFrame() takes any frame, even one that no peer should send.
  std::vector<uint8_t> Frame(const PacketSpec& spec, const Gid& source = kPeerGid,
                             const Gid& destination = kOurGid) const;
  DropReason InjectFrame(std::span<const uint8_t> frame);
  void ExpectFrameDropped(DropReason reason, std::span<const uint8_t> frame,
                          Location location = Location::current());

  // The latest frame taken from the port, as it is on the wire.
  const std::vector<uint8_t>& last_frame() const { return last_frame_; }
  // The next frame we send must match. Returns the parsed packet, to check its other fields.
  PacketSpec ExpectSent(const PacketSpec& expected, Location location = Location::current());
  void ExpectNothingSent(Location location = Location::current());
  // Takes everything sent, without checking it.
  std::vector<PacketSpec> TakeSent();

  // Until ReleaseTransmit() the port takes only one frame for each call of TransmitOne().
  void HoldTransmit() { holds_transmit_ = true; }
  void TransmitOne();
  void ReleaseTransmit();

  // Until ReleaseCompletions() completions stay in the queue.
  void HoldCompletions() { holds_completions_ = true; }
  void ReleaseCompletions();

  // Lets time pass; each timer runs exactly when it is due.
  void Advance(Duration duration);
  Time now() const { return now_; }
  void ExpectNoDeadline(Location location = Location::current());

  // Work requests on the registered memory: bytes [offset, offset + length). Receives go to the
  // shared receive queue if there is one; datagrams go to the peer.
  void PostReceive(uint64_t wr_id, uint64_t offset, uint32_t length);
  // Posts two receives, then the peer sends the first packet of a message of several packets.
  void BeginMessageFor(uint64_t wr_id, uint64_t next_wr_id);
  void PostSend(uint64_t wr_id, uint64_t offset, uint32_t length);
  void PostWrite(uint64_t wr_id, uint64_t offset, uint32_t length);
  void PostRead(uint64_t wr_id, uint64_t offset, uint32_t length);
  void PostFetchAdd(uint64_t wr_id, uint64_t offset, uint64_t add);
  Status Post(SendWorkRequest request, uint64_t offset, uint32_t length);
  // A signaled request to the peer's memory that the requests above use.
  static SendWorkRequest Request(uint64_t wr_id, SendOpcode opcode);
  static constexpr uint64_t kPeerAddress = 0xabc'000;
  static constexpr RKey kPeerRkey{0x7700};

  Completion ExpectCompletion(uint64_t wr_id, CompletionStatus status = CompletionStatus::kSuccess,
                              Location location = Location::current());
  // Takes every completion, without checking them.
  std::vector<Completion> TakeCompletions();
  void ExpectNoCompletion(Location location = Location::current());

  // ibv_modify_qp of the state alone.
  Status MoveTo(QpState state);
  // Takes the queue pair from RESET to options.state with the attributes of the options.
  void Connect();
  void ExpectState(QpState state, Location location = Location::current());
  // The next event must have this type and concern the right object.
  void ExpectEvent(EventType type, Location location = Location::current());
  void ExpectNoEvent(Location location = Location::current());

  // The peer's host answers the query that was just sent: it has these features or, if that was the
  // question, the process is in this state.
  void AnswerPeerQuery(PeerFeatures features,
                       PeerQuery::Process process = PeerQuery::Process::kNotTold);

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
  Counters counters() const { return endpoint_.counters(); }
  Psn first_psn() const { return options_.first_psn; }
  Psn peers_first_psn() const { return options_.peers_first_psn; }

 private:
  void ToInit();
  void ToReadyToReceive();
  void ToReadyToSend();
  void FailASend();
  // The context that events of this type carry.
  const void* ContextOf(EventType type) const;
  // `spec` with the fields that every packet of the connection has.
  PacketSpec Filled(PacketSpec spec, Qpn source, Qpn destination) const;
  // Takes the frames that the endpoint has to send, and its completions.
  void Drain();
  // False if there was no frame.
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
  std::optional<PeerQuery> peer_query_;  // the last one that was sent
  std::vector<uint8_t> last_frame_;
  std::deque<Completion> completions_;
};

}  // namespace uroce::transport::packet_scripts
