#include "tests/system/agent/connection.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <random>
#include <stdexcept>

namespace agent {
namespace {

using system_test::Fail;
using Clock = std::chrono::steady_clock;

constexpr int kQueueDepth = 16;
constexpr ibv_qp_cap kCapabilities = {.max_send_wr = kQueueDepth,
                                      .max_recv_wr = kQueueDepth,
                                      .max_send_sge = 1,
                                      .max_recv_sge = 1,
                                      .max_inline_data = 0};
// Longer than any of the tests' timeouts with all retries.
constexpr std::chrono::seconds kTimeout(120);

template <auto kCreate, typename... Arguments>
auto Create(const char* call, Arguments... arguments) {
  auto* object = kCreate(arguments...);
  if (object == nullptr) Fail(call, errno);
  return object;
}

}  // namespace

std::string ToString(const Address& address) {
  std::string gid;
  for (const uint8_t byte : address.queue_pair.gid.raw) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", byte);
    gid += digits;
  }
  return std::to_string(address.queue_pair.number) + ' ' +
         std::to_string(address.queue_pair.first_psn) + ' ' + gid + ' ' +
         std::to_string(address.buffer) + ' ' + std::to_string(address.rkey);
}

Connection::Connection(const system_test::Device& device)
    : buffer_(kBufferBytes),
      domain_(Create<ibv_alloc_pd>("ibv_alloc_pd", device.context())),
      completions_(Create<ibv_create_cq>("ibv_create_cq", device.context(), kQueueDepth, nullptr,
                                         nullptr, 0)),
      queue_pair_(device, domain_.get(), completions_.get(), completions_.get(), kCapabilities,
                  std::random_device()()) {
  region_.reset(ibv_reg_mr(domain_.get(), buffer_.data(), buffer_.size(),
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
  if (region_ == nullptr) Fail("ibv_reg_mr", errno);
}

Address Connection::address() const {
  return {.queue_pair = queue_pair_.address(),
          .buffer = reinterpret_cast<uint64_t>(buffer_.data()),
          .rkey = region_->rkey};
}

void Connection::Connect(const Address& peer, const system_test::RcSettings& settings) {
  peer_ = peer;
  queue_pair_.Connect(peer.queue_pair, settings);
}

Outcome Connection::Write(uint8_t value, uint32_t bytes) {
  if (bytes > buffer_.size()) throw std::runtime_error("the buffer is not as long");
  std::fill_n(buffer_.begin(), bytes, value);
  ibv_sge sge{
      .addr = reinterpret_cast<uint64_t>(buffer_.data()), .length = bytes, .lkey = region_->lkey};
  ibv_send_wr request{};
  request.sg_list = &sge;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma = {.remote_addr = peer_.buffer, .rkey = peer_.rkey};
  ibv_send_wr* bad = nullptr;
  const auto start = Clock::now();
  const int error = ibv_post_send(queue_pair_.get(), &request, &bad);
  if (error != 0) Fail("ibv_post_send", error);
  const ibv_wc completion = Await();
  return {.status = completion.status, .duration = Clock::now() - start};
}

ibv_wc Connection::Await() {
  const auto start = Clock::now();
  ibv_wc completion;
  for (;;) {
    const int count = ibv_poll_cq(completions_.get(), 1, &completion);
    if (count < 0) Fail("ibv_poll_cq", errno);
    if (count == 1) return completion;
    if (Clock::now() - start > kTimeout) throw std::runtime_error("no completion came");
  }
}

size_t Connection::CountLeading(uint8_t value) const {
  const auto end =
      std::find_if(buffer_.begin(), buffer_.end(), [&](uint8_t byte) { return byte != value; });
  return static_cast<size_t>(end - buffer_.begin());
}

void Connection::WaitForLeading(uint8_t value, uint32_t bytes) {
  const auto start = Clock::now();
  ibv_wc completion;
  while (CountLeading(value) < bytes) {
    if (ibv_poll_cq(completions_.get(), 1, &completion) < 0) Fail("ibv_poll_cq", errno);
    if (Clock::now() - start > kTimeout) throw std::runtime_error("nothing was written");
  }
}

}  // namespace agent
