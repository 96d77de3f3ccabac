#include "tests/interop/replay/requester_replay.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "transport/wire/frame_builder.h"
#include "transport/wire/udp.h"

namespace uroce::transport::interop {
namespace {

// Each buffer has pages of its own, as in the programs.
constexpr size_t kPageBytes = 4'096;

// The timeout of connections that the connection manager sets up.
constexpr uint8_t kManagedTimeout = 19;  // 2.1 s

SendOpcode OpcodeOf(const Opcode& opcode) {
  switch (opcode.operation) {
    case Operation::kWrite:
      return opcode.HasImmediate() ? SendOpcode::kRdmaWriteWithImmediate : SendOpcode::kRdmaWrite;
    case Operation::kReadRequest:
      return SendOpcode::kRdmaRead;
    case Operation::kCompareAndSwap:
      return SendOpcode::kCompareAndSwap;
    case Operation::kFetchAndAdd:
      return SendOpcode::kFetchAndAdd;
    default:
      return opcode.HasImmediate() ? SendOpcode::kSendWithImmediate : SendOpcode::kSend;
  }
}

// A packet without the bits that each requester sets by its own choice: AckReq and MigReq.
Answer Normalised(const CapturedFrame& frame, uint32_t number, Psn first_psn) {
  Packet packet = frame.packet;
  packet.ack_request = false;
  packet.migration_request = true;
  return Answer(number, packet, first_psn);
}

}  // namespace

RequesterReplay::RequesterReplay(const Capture& capture, const Flow& flow)
    : capture_(capture), flow_(flow) {
  for (const CapturedFrame* frame : FirstTransmissions()) {
    theirs_.push_back(Normalised(*frame, frame->number, flow_.first_psn));
  }
  FindWorkRequests();
}

std::vector<const CapturedFrame*> RequesterReplay::FirstTransmissions() const {
  std::map<int32_t, const CapturedFrame*> by_psn;
  for (const CapturedFrame& frame : capture_) {
    if (!flow_.HasRequest(frame)) continue;
    by_psn.try_emplace(frame.packet.psn.DistanceFrom(flow_.first_psn), &frame);
  }
  std::vector<const CapturedFrame*> frames;
  // A READ that was resumed in the middle starts at a later PSN, but is the same READ.
  int32_t next = 0;
  for (const auto& [distance, frame] : by_psn) {
    if (distance < next) continue;
    next = distance + static_cast<int32_t>(PsnsOf(frame->packet, flow_.mtu));
    frames.push_back(frame);
  }
  return frames;
}

void RequesterReplay::FindWorkRequests() {
  for (const CapturedFrame* frame : FirstTransmissions()) {
    const Packet& packet = frame->packet;
    if (packet.opcode.StartsMessage()) {
      requests_.push_back({.first_frame = frame->number, .headers = packet, .payload = {}});
    }
    WorkRequest& request = requests_.back();
    request.first_frame = std::min(request.first_frame, frame->number);
    request.payload.insert(request.payload.end(), packet.payload.begin(), packet.payload.end());
    if (packet.opcode.EndsMessage()) {
      request.headers.opcode.suffix = packet.opcode.suffix;
      request.headers.immediate = packet.immediate;
      request.headers.solicited = packet.solicited;
    }
  }
  for (WorkRequest& request : requests_) {
    if (request.headers.opcode.operation == Operation::kReadRequest) {
      request.payload.resize(request.headers.reth.dma_length);
    }
    if (request.headers.opcode.HasAtomicEth()) request.payload.resize(sizeof(uint64_t));
    request.offset = local_bytes_;
    const size_t pages = request.payload.size() / kPageBytes + 1;
    local_bytes_ += pages * kPageBytes;
  }
}

// Puts the data of the responses to a READ or an atomic, as far as they arrived, into the request.
void RequesterReplay::FindResult(WorkRequest& request) const {
  const Psn first = request.headers.psn;
  const auto psns = static_cast<int32_t>(PsnsOf(request.headers, flow_.mtu));
  for (const CapturedFrame& frame : capture_) {
    if (!flow_.HasAnswer(frame)) continue;
    const Packet& packet = frame.packet;
    const int32_t distance = packet.psn.DistanceFrom(first);
    if (distance < 0 || distance >= psns) continue;
    if (packet.opcode.HasAtomicAckEth()) {
      std::memcpy(request.payload.data(), &packet.atomic_original, sizeof(uint64_t));
    } else if (packet.opcode.operation == Operation::kReadResponse) {
      const size_t offset = static_cast<size_t>(distance) * Bytes(flow_.mtu);
      std::ranges::copy(packet.payload, request.payload.begin() + static_cast<long>(offset));
    }
  }
}

StandIn::Options RequesterReplay::Options() const {
  StandIn::Options options{.service = flow_.service,
                           .self = flow_.requester,
                           .peer = flow_.responder,
                           .mtu = flow_.mtu,
                           .sq_psn = flow_.first_psn,
                           .start = capture_.front().at,
                           .local_bytes = local_bytes_};
  if (flow_.service == Service::kUnreliableDatagram) {
    options.qkey = requests_.front().headers.deth.qkey;
  }
  if (std::ranges::any_of(capture_, &CapturedFrame::IsManagement))
    options.timeout = kManagedTimeout;
  return options;
}

// rxe does not use end-to-end credits, so its requesters never hold SENDs back. Ours does until an
// ACK without credit information arrives, so it first gets an unsolicited one (IBA 9.7.7.2).
std::vector<uint8_t> RequesterReplay::NoCreditInformation() const {
  TransportHeaders headers;
  headers.opcode.operation = Operation::kAcknowledge;
  headers.destination_qpn = StandIn::OwnQpn(flow_.requester);
  headers.psn = flow_.first_psn - 1;
  headers.aeth.syndrome = Syndrome::Ack(Syndrome::kNoCreditInformation);
  AddressVector to_requester;
  to_requester.destination_gid = flow_.requester.gid;
  to_requester.destination_mac = flow_.requester.mac;
  const FrameBuilder builder(flow_.responder.mac, flow_.responder.gid, to_requester,
                             UdpHeader::kRocePort);
  std::vector<uint8_t> frame(kMaxFrameBytes);
  frame.resize(builder.Emit(headers, {}, frame));
  return frame;
}

void RequesterReplay::Run() {
  StandIn stand_in(Options());
  if (flow_.service == Service::kReliableConnection) stand_in.Receive(NoCreditInformation());
  for (const CapturedFrame& frame : capture_) {
    stand_in.AdvanceTo(frame.at);
    for (const WorkRequest& request : requests_) {
      if (request.first_frame == frame.number) Post(stand_in, request);
    }
    if (frame.verdict != DropReason::kNone || flow_.HasAnswer(frame)) {
      stand_in.Receive(frame.bytes);
    }
    TakeSent(stand_in);
  }
  TakeCompletions(stand_in);
  std::map<int32_t, const CapturedFrame*> by_psn;
  for (const CapturedFrame& frame : sent_) {
    by_psn.try_emplace(frame.packet.psn.DistanceFrom(flow_.first_psn), &frame);
  }
  int32_t next = 0;
  for (const auto& [distance, frame] : by_psn) {
    if (distance < next) continue;
    next = distance + static_cast<int32_t>(PsnsOf(frame->packet, flow_.mtu));
    ours_.push_back(Normalised(*frame, frame->number, flow_.first_psn));
  }
}

void RequesterReplay::Post(StandIn& stand_in, const WorkRequest& request) {
  const TransportHeaders& headers = request.headers;
  SendWorkRequest post;
  post.wr_id = static_cast<uint64_t>(&request - requests_.data());
  post.opcode = OpcodeOf(headers.opcode);
  post.signaled = true;
  post.solicited = headers.solicited;
  post.immediate = headers.immediate;
  if (headers.opcode.HasAtomicEth()) {
    const bool is_add = headers.opcode.operation == Operation::kFetchAndAdd;
    post.remote_address = headers.atomic.virtual_address;
    post.rkey = headers.atomic.rkey;
    post.compare_or_add = is_add ? headers.atomic.swap_or_add : headers.atomic.compare;
    post.swap = is_add ? 0 : headers.atomic.swap_or_add;
  } else {
    post.remote_address = headers.reth.virtual_address;
    post.rkey = headers.reth.rkey;
    std::ranges::copy(request.payload, stand_in.local() + request.offset);
  }
  const auto length = static_cast<uint32_t>(request.payload.size());
  const ScatterGatherEntry sge = stand_in.Local(request.offset, length);
  if (length != 0) post.sges = {&sge, 1};
  post.address = &stand_in.peer_address();
  post.remote_qpn = flow_.responder.qpn;
  post.remote_qkey = headers.deth.qkey;
  if (stand_in.qp().PostSend(post) != Status::kOk) {
    failures_.push_back("request " + std::to_string(post.wr_id) + " could not be posted");
  }
}

void RequesterReplay::TakeSent(StandIn& stand_in) {
  for (CapturedFrame& frame : stand_in.TakeSent()) sent_.push_back(std::move(frame));
}

void RequesterReplay::TakeCompletions(StandIn& stand_in) {
  for (const Completion& completion : stand_in.TakeCompletions()) {
    const std::string what = "request " + std::to_string(completion.wr_id);
    if (completion.status != CompletionStatus::kSuccess) {
      if (end_ == CompletionStatus::kSuccess) end_ = completion.status;
      continue;
    }
    if (completion.wr_id != completed_) failures_.push_back(what + " completed out of order");
    ++completed_;
    WorkRequest& request = requests_[completion.wr_id];
    FindResult(request);
    if (!std::ranges::equal(request.payload,
                            std::span(stand_in.local() + request.offset, request.payload.size()))) {
      failures_.push_back(what + " has brought other bytes");
    }
  }
}

}  // namespace uroce::transport::interop
