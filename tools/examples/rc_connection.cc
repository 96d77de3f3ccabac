#include "tools/examples/rc_connection.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>

namespace live_query {
namespace {

constexpr uint8_t kPortNumber = 1;
constexpr int kQueueDepth = 128;

[[noreturn]] void Fail(const std::string& call, int error) {
  throw std::runtime_error(call + " failed: " + std::strerror(error));
}

ibv_context* Open(const std::string& name) {
  int count = 0;
  const std::unique_ptr<ibv_device*, decltype(&ibv_free_device_list)> list(
      ibv_get_device_list(&count), &ibv_free_device_list);
  if (list == nullptr) Fail("ibv_get_device_list", errno);
  for (int i = 0; i < count; ++i) {
    ibv_device* device = list.get()[i];
    if (!name.empty() && name != ibv_get_device_name(device)) continue;
    ibv_context* context = ibv_open_device(device);
    if (context == nullptr) Fail("ibv_open_device", errno);
    return context;
  }
  throw std::runtime_error(name.empty() ? "there is no RDMA device" : "there is no device " + name);
}

std::string GidToHex(const ibv_gid& gid) {
  std::string text;
  char digits[3];
  for (const uint8_t byte : gid.raw) {
    std::snprintf(digits, sizeof(digits), "%02x", byte);
    text += digits;
  }
  return text;
}

}  // namespace

Device::Device(const std::string& name, int gid_index)
    : context_(Open(name)), gid_index_(gid_index), gid_{}, port_{} {
  if (ibv_query_port(context(), kPortNumber, &port_) != 0) Fail("ibv_query_port", errno);
  if (ibv_query_gid(context(), kPortNumber, gid_index, &gid_) != 0) Fail("ibv_query_gid", errno);
}

std::string ToString(const Endpoint& endpoint) {
  char text[128];
  std::snprintf(text, sizeof(text), "%06x %06x %s %016" PRIx64 " %08x", endpoint.qp_number,
                endpoint.psn, GidToHex(endpoint.gid).c_str(), endpoint.buffer_address,
                endpoint.rkey);
  return text;
}

Endpoint EndpointFromString(const std::string& text) {
  Endpoint endpoint{};
  char gid[33] = "";
  if (std::sscanf(text.c_str(), "%x %x %32s %" SCNx64 " %x", &endpoint.qp_number, &endpoint.psn,
                  gid, &endpoint.buffer_address, &endpoint.rkey) != 5 ||
      std::strlen(gid) != 32) {
    throw std::runtime_error("the other end sent '" + text + "', which is no address");
  }
  for (size_t i = 0; i < sizeof(endpoint.gid.raw); ++i) {
    unsigned byte = 0;
    std::sscanf(gid + 2 * i, "%2x", &byte);
    endpoint.gid.raw[i] = static_cast<uint8_t>(byte);
  }
  return endpoint;
}

std::chrono::duration<double> RetryPolicy::AtLeast() const {
  constexpr double kUnitSeconds = 4.096e-6;
  return std::chrono::duration<double>((retry_count + 1) * kUnitSeconds *
                                       static_cast<double>(1u << timeout));
}

std::chrono::duration<double> RetryPolicy::AtMost() const { return 4 * AtLeast(); }

RcConnection::RcConnection(const Device& device)
    : device_(device),
      buffer_(kBufferBytes),
      mtu_(device.port().active_mtu),
      psn_(std::random_device()() & kPsnMask) {
  pd_.reset(ibv_alloc_pd(device.context()));
  if (pd_ == nullptr) Fail("ibv_alloc_pd", errno);
  mr_.reset(ibv_reg_mr(pd_.get(), buffer_.data(), buffer_.size(),
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                           IBV_ACCESS_REMOTE_ATOMIC));
  if (mr_ == nullptr) Fail("ibv_reg_mr", errno);
  cq_.reset(ibv_create_cq(device.context(), 2 * kQueueDepth, nullptr, nullptr, 0));
  if (cq_ == nullptr) Fail("ibv_create_cq", errno);
  ibv_qp_init_attr attributes{};
  attributes.send_cq = cq_.get();
  attributes.recv_cq = cq_.get();
  attributes.cap = {.max_send_wr = kQueueDepth,
                    .max_recv_wr = kQueueDepth,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
  attributes.qp_type = IBV_QPT_RC;
  qp_.reset(ibv_create_qp(pd_.get(), &attributes));
  if (qp_ == nullptr) Fail("ibv_create_qp", errno);
}

Endpoint RcConnection::local() const {
  return {.qp_number = qp_->qp_num,
          .psn = psn_,
          .gid = device_.gid(),
          .buffer_address = reinterpret_cast<uint64_t>(buffer_.data()),
          .rkey = mr_->rkey};
}

void RcConnection::Modify(ibv_qp_attr attributes, int mask, const char* state) {
  const int error = ibv_modify_qp(qp_.get(), &attributes, mask | IBV_QP_STATE);
  if (error != 0) Fail(std::string("ibv_modify_qp to ") + state, error);
}

void RcConnection::ToInit() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = kPortNumber;
  attributes.qp_access_flags =
      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  Modify(attributes, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");
}

void RcConnection::ToReadyToReceive(const Endpoint& peer) {
  peer_ = peer;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = mtu_;
  attributes.dest_qp_num = peer.qp_number;
  attributes.rq_psn = peer.psn;
  attributes.max_dest_rd_atomic = 4;
  attributes.min_rnr_timer = 12;  // 0.64 ms
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.port_num = kPortNumber;
  attributes.ah_attr.grh.dgid = peer.gid;
  attributes.ah_attr.grh.sgid_index = static_cast<uint8_t>(device_.gid_index());
  attributes.ah_attr.grh.hop_limit = 64;
  Modify(attributes,
         IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
             IBV_QP_MIN_RNR_TIMER,
         "RTR");
}

void RcConnection::ToReadyToSend(const RetryPolicy& policy) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = policy.timeout;
  attributes.retry_cnt = policy.retry_count;
  attributes.rnr_retry = 7;  // For ever.
  attributes.sq_psn = psn_;
  attributes.max_rd_atomic = 4;
  Modify(attributes,
         IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
             IBV_QP_MAX_QP_RD_ATOMIC,
         "RTS");
}

void RcConnection::ToReset() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RESET;
  Modify(attributes, 0, "RESET");
}

ibv_qp_attr RcConnection::Query() const {
  constexpr int kEverything = IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT |
                              IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_RQ_PSN | IBV_QP_SQ_PSN |
                              IBV_QP_DEST_QPN | IBV_QP_AV | IBV_QP_CAP;
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init_attributes{};
  const int error = ibv_query_qp(qp_.get(), &attributes, kEverything, &init_attributes);
  if (error != 0) Fail("ibv_query_qp", error);
  return attributes;
}

void RcConnection::PostReceive() {
  ibv_sge sge{.addr = reinterpret_cast<uint64_t>(buffer_.data() + kBufferBytes / 2),
              .length = static_cast<uint32_t>(kBufferBytes / 2),
              .lkey = mr_->lkey};
  ibv_recv_wr request{};
  request.sg_list = &sge;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(qp_.get(), &request, &bad);
  if (error != 0) Fail("ibv_post_recv", error);
}

void RcConnection::Post(ibv_wr_opcode operation, size_t offset, size_t bytes,
                        size_t remote_offset) {
  ibv_sge sge{.addr = reinterpret_cast<uint64_t>(buffer_.data() + offset),
              .length = static_cast<uint32_t>(bytes),
              .lkey = mr_->lkey};
  ibv_send_wr request{};
  request.sg_list = &sge;
  request.num_sge = 1;
  request.opcode = operation;
  request.send_flags = IBV_SEND_SIGNALED;
  const uint64_t remote_address = peer_.buffer_address + remote_offset;
  if (operation == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    request.wr.atomic = {
        .remote_addr = remote_address, .compare_add = 1, .swap = 0, .rkey = peer_.rkey};
  } else {
    request.wr.rdma = {.remote_addr = remote_address, .rkey = peer_.rkey};
  }
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp_.get(), &request, &bad);
  if (error != 0) Fail("ibv_post_send", error);
}

bool RcConnection::Poll(ibv_wc* completion) {
  const int count = ibv_poll_cq(cq_.get(), 1, completion);
  if (count < 0) Fail("ibv_poll_cq", errno);
  return count == 1;
}

ibv_wc RcConnection::Wait(std::chrono::seconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  ibv_wc completion{};
  while (!Poll(&completion)) {
    if (std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error("no completion came within " + std::to_string(limit.count()) + " s");
    }
  }
  return completion;
}

}  // namespace live_query
