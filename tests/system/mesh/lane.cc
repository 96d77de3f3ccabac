#include "tests/system/mesh/lane.h"

#include <cerrno>
#include <random>
#include <stdexcept>
#include <string>

#include "tests/system/mover/random.h"

namespace mesh {
namespace {

using system_test::Fail;

// A few packets at every path MTU, so that a fault may hit a message in its middle.
constexpr uint32_t kMaxBytes = 6'000;
constexpr uint32_t kMaxMessageBytes = 200;
constexpr uint32_t kTurnRequests = 3;
constexpr ibv_qp_cap kCapabilities = {.max_send_wr = kTurnRequests + 1,
                                      .max_recv_wr = 1,
                                      .max_send_sge = 1,
                                      .max_recv_sge = 1,
                                      .max_inline_data = 0};
static_assert(kTurnRequests + 1 + 1 <= Lane::kMaxCompletions);

enum RequestKind : uint64_t { kWrite, kRead, kSend, kProbe, kReceive };

// The content of a turn is derived from this number alone.
uint64_t SeedOf(uint32_t from, uint32_t to, uint32_t lane, uint64_t turn) {
  return mover::Mix(mover::Mix(mover::Mix(mover::Mix(from) + to) + lane) + turn);
}
uint64_t MessageSeed(uint64_t seed) { return seed + 1; }
uint32_t LengthOf(uint64_t seed) { return mover::Random(seed).Between(1, kMaxBytes); }
uint32_t MessageLengthOf(uint64_t seed) {
  return mover::Random(MessageSeed(seed)).Between(1, kMaxMessageBytes);
}

system_test::RegionHandle Register(ibv_pd* domain, std::vector<uint8_t>* memory) {
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  system_test::RegionHandle region(
      ibv_reg_mr(domain, memory->data(), memory->size(), static_cast<unsigned>(kAccess)));
  if (region == nullptr) Fail("ibv_reg_mr", errno);
  return region;
}

ibv_send_wr Request(RequestKind kind, ibv_wr_opcode opcode, ibv_sge* sge, ibv_send_wr* next) {
  ibv_send_wr request{};
  request.wr_id = kind;
  request.opcode = opcode;
  request.sg_list = sge;
  request.num_sge = sge == nullptr ? 0 : 1;
  request.send_flags = IBV_SEND_SIGNALED;
  request.next = next;
  return request;
}

void Post(ibv_qp* qp, ibv_send_wr* requests) {
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp, requests, &bad);
  if (error != 0) Fail("ibv_post_send", error);
}

}  // namespace

Lane::Lane(const system_test::Device& device, ibv_pd* domain, ibv_cq* completions,
           const LaneName& name)
    : name_(name),
      memory_(size_t{kMaxBytes} * static_cast<size_t>(Buffer::kCount)),
      region_(Register(domain, &memory_)),
      queue_pair_(device, domain, completions, completions, kCapabilities, std::random_device()()) {
  PostReceive();
}

LaneAddress Lane::address() const {
  const size_t inbox = size_t{kMaxBytes} * static_cast<size_t>(Buffer::kInbox);
  return {.queue_pair = queue_pair_.address(),
          .inbox = reinterpret_cast<uint64_t>(memory_.data() + inbox),
          .rkey = region_->rkey};
}

void Lane::Connect(const LaneAddress& peer, const system_test::RcSettings& settings) {
  peer_ = peer;
  queue_pair_.Connect(peer.queue_pair, settings);
  is_our_turn_ = name_.ours < name_.theirs;
}

std::span<uint8_t> Lane::bytes(Buffer buffer) {
  return std::span(memory_).subspan(size_t{kMaxBytes} * static_cast<size_t>(buffer), kMaxBytes);
}

ibv_sge Lane::Sge(Buffer buffer, uint32_t length) {
  return {.addr = reinterpret_cast<uint64_t>(bytes(buffer).data()),
          .length = length,
          .lkey = region_->lkey};
}

void Lane::Advance() {
  if (!is_our_turn_ || outstanding_ != 0 || failure_ != IBV_WC_SUCCESS) return;
  const uint64_t seed = SeedOf(name_.ours, name_.theirs, name_.number, turns_sent_);
  mover::FillWithPattern(bytes(Buffer::kOutgoing).first(LengthOf(seed)), seed);
  mover::FillWithPattern(bytes(Buffer::kMessage).first(MessageLengthOf(seed)), MessageSeed(seed));
  ibv_sge outgoing = Sge(Buffer::kOutgoing, LengthOf(seed));
  ibv_sge fetched = Sge(Buffer::kFetched, LengthOf(seed));
  ibv_sge message = Sge(Buffer::kMessage, MessageLengthOf(seed));
  ibv_send_wr send = Request(kSend, IBV_WR_SEND, &message, nullptr);
  ibv_send_wr read = Request(kRead, IBV_WR_RDMA_READ, &fetched, &send);
  ibv_send_wr write = Request(kWrite, IBV_WR_RDMA_WRITE, &outgoing, &read);
  write.wr.rdma = {.remote_addr = peer_.inbox, .rkey = peer_.rkey};
  read.wr.rdma = write.wr.rdma;
  Post(queue_pair_.get(), &write);
  outstanding_ += kTurnRequests;
  ++turns_sent_;
  is_our_turn_ = false;
}

void Lane::Probe() {
  if (failure_ != IBV_WC_SUCCESS) return;
  ibv_send_wr probe = Request(kProbe, IBV_WR_RDMA_WRITE, nullptr, nullptr);
  probe.wr.rdma = {.remote_addr = peer_.inbox, .rkey = peer_.rkey};
  Post(queue_pair_.get(), &probe);
  ++outstanding_;
}

void Lane::PostReceive() {
  ibv_sge sge = Sge(Buffer::kReceived, kMaxMessageBytes);
  ibv_recv_wr request{};
  request.wr_id = kReceive;
  request.sg_list = &sge;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(queue_pair_.get(), &request, &bad);
  if (error != 0) Fail("ibv_post_recv", error);
}

void Lane::OnCompletion(const ibv_wc& completion) {
  const bool is_ours = completion.wr_id != kReceive;
  if (is_ours) --outstanding_;
  if (completion.status != IBV_WC_SUCCESS) {
    // Later failures are flushes, which say nothing about the cause.
    if (failure_ == IBV_WC_SUCCESS) failure_ = completion.status;
    return;
  }
  if (completion.wr_id == kRead) {
    const uint64_t seed = SeedOf(name_.ours, name_.theirs, name_.number, turns_sent_ - 1);
    Verify(Buffer::kFetched, LengthOf(seed), seed, "the bytes read back");
  } else if (!is_ours) {
    VerifyTheirTurn(completion.byte_len);
  }
}

void Lane::VerifyTheirTurn(uint32_t message_bytes) {
  const uint64_t seed = SeedOf(name_.theirs, name_.ours, name_.number, turns_received_);
  if (message_bytes != MessageLengthOf(seed)) {
    throw std::runtime_error("a message of " + std::to_string(message_bytes) + " bytes came, not " +
                             std::to_string(MessageLengthOf(seed)));
  }
  Verify(Buffer::kReceived, message_bytes, MessageSeed(seed), "the message");
  Verify(Buffer::kInbox, LengthOf(seed), seed, "the bytes written to us");
  ++turns_received_;
  PostReceive();
  is_our_turn_ = true;
}

void Lane::Verify(Buffer buffer, uint32_t length, uint64_t seed, const char* what) {
  std::vector<uint8_t> expected(length);
  mover::FillWithPattern(expected, seed);
  const std::span<const uint8_t> found = bytes(buffer).first(length);
  for (uint32_t i = 0; i < length; ++i) {
    if (found[i] == expected[i]) continue;
    throw std::runtime_error(std::string(what) + " are wrong at offset " + std::to_string(i) +
                             " of " + std::to_string(length) + ": lane " +
                             std::to_string(name_.number) + " between " +
                             std::to_string(name_.ours) + " and " + std::to_string(name_.theirs) +
                             ", turn " + std::to_string(turns_received_));
  }
  verified_bytes_ += length;
}

}  // namespace mesh
