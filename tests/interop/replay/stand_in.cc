#include "tests/interop/replay/stand_in.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "transport/wire/frame_builder.h"
#include "transport/wire/frame_parser.h"

namespace uroce::transport::interop {

namespace {

constexpr PdId kPd{1};
constexpr uint64_t kPageBytes = 4'096;
constexpr uint32_t kQueueDepth = 256;
constexpr uint32_t kCompletions = 1'024;
// The values that perftest and the ping-pong programs set.
constexpr uint8_t kRetryCount = 7;
constexpr uint8_t kMinRnrTimer = 12;  // 0.64 ms
constexpr uint8_t kMaxReadAtomic = 16;
constexpr AccessFlags kEveryAccess{AccessFlags::kLocalWrite | AccessFlags::kRemoteWrite |
                                   AccessFlags::kRemoteRead | AccessFlags::kRemoteAtomic};

QpType TypeOf(Service service) {
  switch (service) {
    case Service::kReliableConnection:
      return QpType::kReliableConnection;
    case Service::kUnreliableConnection:
      return QpType::kUnreliableConnection;
    default:
      return QpType::kUnreliableDatagram;
  }
}

void Require(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

}  // namespace

void StandIn::Range::Include(uint64_t address, uint64_t length) {
  begin = std::min(begin, address);
  end = std::max(end, address + length);
}

Qpn StandIn::OwnQpn(const FlowEnd& self) {
  constexpr Qpn kAnyQpn{0x11};
  const bool is_known = self.qpn != Qpn{} && !self.gid.IsMulticast();
  return is_known ? self.qpn : kAnyQpn;
}

EndpointConfig StandIn::Config(const Options& options) {
  const bool is_group = options.self.gid.IsMulticast();
  EndpointConfig config;
  config.mac = options.self.mac;
  // The first GID is the one of the queue pair's path.
  config.gids = {is_group ? Gid::FromIpv4({}) : options.self.gid, Gid::LinkLocal(options.self.mac)};
  config.first_qpn = OwnQpn(options.self);
  config.qpn_count = 1;
  config.features = 0;  // rxe asks no peer what it speaks
  return config;
}

StandIn::StandIn(const Options& options)
    : endpoint_(Config(options)), local_(options.local_bytes), now_(options.start) {
  RegisterRemote(options.remote_memory);
  if (!local_.empty()) {
    const auto key =
        endpoint_.memory().Register({kPd, 0, local_.data(), local_.size(), kEveryAccess});
    Require(key.has_value(), "no key is left");
    local_key_ = *key;
  }
  cq_ = endpoint_.CreateCompletionQueue(kCompletions, nullptr);
  peer_address_.destination_gid = options.peer.gid;
  peer_address_.destination_mac = options.peer.mac;
  QpInitAttributes init;
  init.pd = kPd;
  init.type = TypeOf(options.service);
  init.send_cq = cq_.get();
  init.receive_cq = cq_.get();
  init.capabilities = {kQueueDepth, kQueueDepth, 1, 1, 0};
  Require(endpoint_.CreateQueuePair(init, &qp_) == Status::kOk, "no queue pair");
  Connect(options);
}

// Registers memory under the keys that the peer in the capture uses.
void StandIn::RegisterRemote(const std::map<RKey, Range>& ranges) {
  for (const auto& [key, range] : ranges) {
    std::vector<uint8_t>& bytes = remote_.emplace_back(range.end - range.begin + kPageBytes);
    // Keeps the alignment of the captured addresses, on which atomics depend.
    const uint64_t shift = (range.begin - reinterpret_cast<uintptr_t>(bytes.data())) % kPageBytes;
    const MemoryRegion region{kPd, range.begin, bytes.data() + shift, range.end - range.begin,
                              kEveryAccess};
    Require(endpoint_.memory().RegisterAs(LKey{key.value}, region),
            "a key of the capture cannot be had");
  }
}

void StandIn::Connect(const Options& options) {
  using Mask = QpAttributeMask;
  const bool is_reliable = options.service == Service::kReliableConnection;
  const bool is_datagram = options.service == Service::kUnreliableDatagram;
  QpAttributes attributes;
  attributes.state = QpState::kInit;
  attributes.port_num = 1;
  attributes.access = kEveryAccess;
  attributes.qkey = options.qkey;
  uint32_t mask = Mask::kState | Mask::kPkeyIndex | Mask::kPort;
  mask |= is_datagram ? Mask::kQkey : Mask::kAccessFlags;
  Require(qp_->Modify(attributes, mask) == Status::kOk, "no INIT");

  attributes.state = QpState::kReadyToReceive;
  attributes.path_mtu = options.mtu;
  attributes.destination_qpn = options.peer.qpn;
  attributes.rq_psn = options.rq_psn;
  attributes.max_dest_read_atomic = kMaxReadAtomic;
  attributes.min_rnr_timer = kMinRnrTimer;
  attributes.address = peer_address_;
  mask = Mask::kState;
  if (!is_datagram) {
    mask |= Mask::kAddressVector | Mask::kPathMtu | Mask::kDestinationQpn | Mask::kRqPsn;
  }
  if (is_reliable) mask |= Mask::kMaxDestReadAtomic | Mask::kMinRnrTimer;
  Require(qp_->Modify(attributes, mask) == Status::kOk, "no RTR");

  attributes.state = QpState::kReadyToSend;
  attributes.sq_psn = options.sq_psn;
  attributes.timeout = options.timeout;
  attributes.retry_count = kRetryCount;
  attributes.rnr_retry = kRetryCount;
  attributes.max_read_atomic = kMaxReadAtomic;
  mask = Mask::kState | Mask::kSqPsn;
  if (is_reliable) {
    mask |= Mask::kTimeout | Mask::kRetryCount | Mask::kRnrRetry | Mask::kMaxReadAtomic;
  }
  Require(qp_->Modify(attributes, mask) == Status::kOk, "no RTS");
  if (options.self.gid.IsMulticast()) {
    Require(endpoint_.AttachMulticast(*qp_, options.self.gid) == Status::kOk, "no group");
  }
}

void StandIn::AdvanceTo(Time time) {
  Transmit();
  while (endpoint_.NextDeadline() <= time) {
    now_ = std::max(now_, endpoint_.NextDeadline());
    endpoint_.OnDeadline(now_);
    Transmit();
  }
  now_ = std::max(now_, time);
}

DropReason StandIn::Receive(std::span<const uint8_t> frame) {
  const DropReason reason = endpoint_.OnFrame(now_, frame);
  Transmit();
  return reason;
}

void StandIn::Transmit() {
  while (endpoint_.HasTransmit(Route::kWire)) {
    std::vector<uint8_t> bytes(kMaxFrameBytes);
    bytes.resize(endpoint_.PollTransmit(now_, Route::kWire, bytes));
    if (bytes.empty()) return;
    CapturedFrame& frame = sent_.emplace_back();
    frame.at = now_;
    frame.bytes = std::move(bytes);
    frame.verdict = ParseFrame(frame.bytes, frame.packet);
  }
}

std::vector<CapturedFrame> StandIn::TakeSent() {
  Transmit();
  return std::exchange(sent_, {});
}

std::vector<Completion> StandIn::TakeCompletions() {
  std::vector<Completion> completions(kCompletions);
  completions.resize(cq_->Poll(completions));
  return completions;
}

uint8_t* StandIn::Remote(RKey key, uint64_t address, uint64_t length) {
  return endpoint_.memory().RemoteAddress(kPd, qp_->qpn(), key, address, length,
                                          AccessFlags::kRemoteWrite);
}

ScatterGatherEntry StandIn::Local(size_t offset, uint32_t length) const {
  return {offset, length, local_key_};
}

}  // namespace uroce::transport::interop
