#include "tests/simulation/link.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "transport/wire/frame_builder.h"

namespace uroce::transport::simulation {

namespace {

constexpr AccessFlags kAllAccess(AccessFlags::kLocalWrite | AccessFlags::kRemoteWrite |
                                 AccessFlags::kRemoteRead | AccessFlags::kRemoteAtomic |
                                 AccessFlags::kFlushGlobal);

// The set-up of a link cannot fail.
void Must(bool ok) {
  if (!ok) std::abort();
}

}  // namespace

Link::Link(const LinkOptions& options, Observer observer)
    : own_simulator_(std::make_unique<Simulator>()),
      simulator_(*own_simulator_),
      observer_(std::move(observer)),
      faults_(options.scenario),
      frame_buffer_(kMaxFrameBytes) {
  Random random(options.seed);
  MakeHosts(options, random);
}

Link::Link(const LinkOptions& options, Observer observer, Simulator& simulator, Carrier carrier)
    : simulator_(simulator),
      observer_(std::move(observer)),
      carrier_(std::move(carrier)),
      faults_(options.scenario),
      frame_buffer_(kMaxFrameBytes) {
  Random random(options.seed);
  MakeHosts(options, random);
}

void Link::MakeHosts(const LinkOptions& options, Random& random) {
  for (int i = 0; i < 2; ++i) {
    hosts_[i].index = i;
    MakeHost(hosts_[i], options, random);
    if (!carrier_) MakeWire(hosts_[i], hosts_[1 - i], options, random);
  }
  if (!carrier_) {
    client().wire->Follow(faults_, nic::FaultDirection::kSent);
    server().wire->Follow(faults_, nic::FaultDirection::kReceived);
  }
  Connect(client(), server(), options);
  Connect(server(), client(), options);
}

void Link::MakeWire(Host& from, Host& to, const LinkOptions& options, Random& random) {
  Wire::Hooks hooks = {.deliver = [this, &to](const Frame& frame) { Receive(to, frame); },
                       .impaired =
                           [this](const Frame& frame, const char*) {
                             if (observer_.impaired) observer_.impaired(frame);
                           },
                       .tamper = {}};
  from.wire = std::make_unique<Wire>(simulator_, random.Fork(), options.impairments, hooks);
}

void Link::MakeHost(Host& host, const LinkOptions& options, Random& random) {
  const auto number = static_cast<uint8_t>(host.index + 1);
  EndpointConfig config;
  config.mac = {2, 0, 0, 0, 0, number};
  config.gids = {Gid::LinkLocal(config.mac), Gid::FromIpv4({10, 0, 0, number})};
  // Queue pairs of links with other seeds have other numbers.
  config.first_qpn = Qpn{0x1000u * number + static_cast<uint32_t>(options.seed - 1) % 64 * 16};
  config.qpn_count = 16;
  config.probes = options.probes;
  config.congestion = options.congestion;
  if (options.congestion == Congestion::kNone) config.features = 0;
  config.reorder_packets = options.reorder_packets;
  host.endpoint = std::make_unique<Endpoint>(config);
  host.processor = std::make_unique<Processor>(
      Random(2 * options.seed + static_cast<uint64_t>(host.index)), options.processor);
  host.memory.resize(options.memory_bytes);
  random.Fill(host.memory);
  const auto key = host.endpoint->memory().Register({.pd = kPd,
                                                     .iova = host.address(0),
                                                     .host_address = host.memory.data(),
                                                     .length = host.memory.size(),
                                                     .access = kAllAccess});
  Must(key.has_value());
  host.key = *key;
  host.cq = host.endpoint->CreateCompletionQueue(2 * options.queue_depth, nullptr);
  const QpInitAttributes init = {.pd = kPd,
                                 .send_cq = host.cq.get(),
                                 .receive_cq = host.cq.get(),
                                 .capabilities = {.max_send_wr = options.queue_depth,
                                                  .max_receive_wr = options.queue_depth,
                                                  .max_send_sge = 1,
                                                  .max_receive_sge = 1}};
  Must(host.endpoint->CreateQueuePair(init, &host.qp) == Status::kOk);
}

void Link::Connect(Host& host, const Host& peer, const LinkOptions& options) {
  using M = QpAttributeMask;
  QpAttributes a;
  a.state = QpState::kInit;
  a.port_num = 1;
  a.access = kAllAccess;
  Must(host.qp->Modify(a, M::kState | M::kPkeyIndex | M::kPort | M::kAccessFlags) == Status::kOk);
  a.state = QpState::kReadyToReceive;
  a.path_mtu = options.mtu;
  a.destination_qpn = peer.qp->qpn();
  a.rq_psn = a.sq_psn = options.first_psn;
  a.max_dest_read_atomic = a.max_read_atomic = options.max_read_atomic;
  a.min_rnr_timer = 1;
  a.address = {.destination_gid = peer.endpoint->config().gids[1],
               .destination_mac = peer.endpoint->config().mac,
               .source_gid_index = 1};
  Must(host.qp->Modify(a, M::kState | M::kAddressVector | M::kPathMtu | M::kDestinationQpn |
                              M::kRqPsn | M::kMaxDestReadAtomic | M::kMinRnrTimer) == Status::kOk);
  a.state = QpState::kReadyToSend;
  a.timeout = options.timeout;
  a.retry_count = options.retry_count;
  a.rnr_retry = 7;
  Must(host.qp->Modify(a, M::kState | M::kSqPsn | M::kTimeout | M::kRetryCount | M::kRnrRetry |
                              M::kMaxReadAtomic) == Status::kOk);
}

Status Link::Post(SendOpcode opcode, size_t offset, uint32_t length, uint64_t wr_id) {
  const ScatterGatherEntry sge = {client().address(offset), length, client().key};
  SendWorkRequest request;
  request.wr_id = wr_id;
  request.opcode = opcode;
  request.signaled = true;
  request.remote_address = server().address(offset);
  request.rkey = {server().key.value};
  request.compare_or_add = 1;
  request.sges = {&sge, 1};
  return client().qp->PostSend(request);
}

Status Link::PostReceive(size_t offset, uint32_t length, uint64_t wr_id) {
  const ScatterGatherEntry sge = {server().address(offset), length, server().key};
  return server().qp->PostReceive({.wr_id = wr_id, .sges = {&sge, 1}});
}

void Link::Receive(Host& host, std::span<const uint8_t> frame) {
  const Time runs_at = host.processor->RunsAt(simulator_.now());
  if (runs_at == simulator_.now()) return Process(host, frame);
  simulator_.At(runs_at, [this, &host, waiting = Frame(frame.begin(), frame.end())] {
    Process(host, waiting);
  });
}

void Link::Process(Host& host, std::span<const uint8_t> frame) {
  if (observer_.delivered) observer_.delivered(host, frame);
  host.endpoint->OnFrame(simulator_.now(), frame);
  UpdateAfterEvent(host);
}

void Link::UpdateAfterEvent(Host& host) {
  Transmit(host);
  while (host.endpoint->TakeEvent()) {
  }
  if (observer_.activity) observer_.activity(host);
  ScheduleDeadline(host);
}

void Link::Transmit(Host& host) {
  while (host.endpoint->HasTransmit(Route::kWire) && !WaitsForLine(host)) {
    const size_t bytes = host.endpoint->PollTransmit(simulator_.now(), Route::kWire, frame_buffer_);
    if (bytes == 0) return;
    const std::span<const uint8_t> frame = std::span(frame_buffer_).first(bytes);
    if (observer_.sent) observer_.sent(host, frame);
    if (carrier_) {
      carrier_(host, frame);
    } else {
      host.wire->Send({frame.begin(), frame.end()});
    }
  }
}

// Whether the line is busy. If so, the host transmits again when it is free.
bool Link::WaitsForLine(Host& host) {
  if (carrier_) return false;
  if (host.waits_for_line) return true;
  const Time free_at = host.wire->line_free_at();
  if (free_at <= simulator_.now()) return false;
  host.waits_for_line = true;
  simulator_.At(free_at, [this, &host] {
    host.waits_for_line = false;
    UpdateAfterEvent(host);
  });
  return true;
}

void Link::ScheduleDeadline(Host& host) {
  const Time deadline = std::max(host.endpoint->NextDeadline(), simulator_.now());
  if (deadline < host.wakeup_at) WakeUpAt(deadline, host);  // otherwise that comes before it
}

// If the host has no processor then, it waits for it.
void Link::WakeUpAt(Time time, Host& host) {
  host.wakeup_at = time;
  simulator_.At(time, [this, &host, time] {
    if (host.wakeup_at != time) return;
    const Time runs_at = host.processor->RunsAt(time);
    runs_at == time ? OnDeadline(host) : WakeUpAt(runs_at, host);
  });
}

void Link::OnDeadline(Host& host) {
  host.wakeup_at = kNever;
  host.endpoint->OnDeadline(simulator_.now());
  UpdateAfterEvent(host);
}

}  // namespace uroce::transport::simulation
