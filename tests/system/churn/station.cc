#include "tests/system/churn/station.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace churn {
namespace {

uint8_t MessageByte(uint32_t number, bool is_answer, size_t index) {
  const auto mixed = static_cast<uint32_t>((number * 2'654'435'761u) ^ (index * 40'503u));
  return static_cast<uint8_t>(mixed >> 11) ^ (is_answer ? 0x5a : 0);
}

void MakeNonBlocking(int fd) {
  Require(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0, "fcntl");
}

}  // namespace

void Require(bool ok, const std::string& what) {
  if (!ok) throw std::runtime_error(what + ": " + std::strerror(errno));
}

Station::Station() : channel_(rdma_create_event_channel()), memory_(2 * kMessageBytes * kSlots) {
  Require(channel_ != nullptr, "rdma_create_event_channel");
  MakeNonBlocking(channel_->fd);
  for (uint32_t slot = kSlots; slot > 0; --slot) free_slots_.push_back(slot - 1);
}

Station::~Station() {
  if (region_ != nullptr) ibv_dereg_mr(region_);
  if (cq_ != nullptr) ibv_destroy_cq(cq_);
  if (completions_ != nullptr) ibv_destroy_comp_channel(completions_);
  if (pd_ != nullptr) ibv_dealloc_pd(pd_);
  rdma_destroy_event_channel(channel_);
}

void Station::Prepare(ibv_context* device) {
  if (pd_ != nullptr) return;
  pd_ = ibv_alloc_pd(device);
  Require(pd_ != nullptr, "ibv_alloc_pd");
  completions_ = ibv_create_comp_channel(device);
  Require(completions_ != nullptr, "ibv_create_comp_channel");
  MakeNonBlocking(completions_->fd);
  cq_ = ibv_create_cq(device, 2 * kSlots, nullptr, completions_, 0);
  Require(cq_ != nullptr, "ibv_create_cq");
  Require(ibv_req_notify_cq(cq_, 0) == 0, "ibv_req_notify_cq");
  region_ = ibv_reg_mr(pd_, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE);
  Require(region_ != nullptr, "ibv_reg_mr");
}

uint8_t* Station::Sent(uint32_t slot) const { return &memory_[2 * kMessageBytes * slot]; }
uint8_t* Station::Received(uint32_t slot) const { return Sent(slot) + kMessageBytes; }

uint32_t Station::Open(rdma_cm_id* id) {
  Prepare(id->verbs);
  if (free_slots_.empty()) throw std::runtime_error("too many connections at a time");
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = cq_;
  attributes.cap = {.max_send_wr = 1,
                    .max_recv_wr = 1,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
  attributes.qp_type = IBV_QPT_RC;
  Require(rdma_create_qp(id, pd_, &attributes) == 0, "rdma_create_qp");
  std::fill_n(Received(slot), kMessageBytes, uint8_t{0});
  ibv_sge piece{reinterpret_cast<uintptr_t>(Received(slot)), kMessageBytes, region_->lkey};
  ibv_recv_wr request{.wr_id = slot, .next = nullptr, .sg_list = &piece, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  Require(ibv_post_recv(id->qp, &request, &bad) == 0, "ibv_post_recv");
  return slot;
}

void Station::Close(rdma_cm_id* id, uint32_t slot) {
  rdma_destroy_qp(id);
  Require(rdma_destroy_id(id) == 0, "rdma_destroy_id");
  free_slots_.push_back(slot);
}

void Station::Send(rdma_cm_id* id, uint32_t slot, uint32_t number, bool is_answer) {
  for (size_t i = 0; i < kMessageBytes; ++i) Sent(slot)[i] = MessageByte(number, is_answer, i);
  ibv_sge piece{reinterpret_cast<uintptr_t>(Sent(slot)), kMessageBytes, region_->lkey};
  ibv_send_wr request{};
  request.wr_id = slot;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  Require(ibv_post_send(id->qp, &request, &bad) == 0, "ibv_post_send");
}

void Station::Check(uint32_t slot, uint32_t number, bool is_answer) const {
  for (size_t i = 0; i < kMessageBytes; ++i) {
    if (Received(slot)[i] == MessageByte(number, is_answer, i)) continue;
    throw std::runtime_error("connection " + std::to_string(number) + ": byte " +
                             std::to_string(i) + " of the message is wrong");
  }
}

void Station::Serve(const std::function<void(const rdma_cm_event&)>& on_event,
                    const std::function<void(uint32_t slot)>& on_message) {
  std::array<pollfd, 2> fds = {{{channel_->fd, POLLIN, 0}, {-1, POLLIN, 0}}};
  if (completions_ != nullptr) fds[1].fd = completions_->fd;
  Require(poll(fds.data(), fds.size(), -1) > 0, "poll");
  if (fds[0].revents != 0) TakeEvents(on_event);
  if (fds[1].revents != 0) TakeMessages(on_message);
}

// Copies each event and acknowledges it at once: an id cannot be destroyed before.
void Station::TakeEvents(const std::function<void(const rdma_cm_event&)>& on_event) {
  rdma_cm_event* event = nullptr;
  while (rdma_get_cm_event(channel_, &event) == 0) {
    const rdma_cm_event copy = *event;
    std::array<uint8_t, 256> private_data{};
    std::copy_n(static_cast<const uint8_t*>(copy.param.conn.private_data),
                copy.param.conn.private_data_len, private_data.begin());
    Require(rdma_ack_cm_event(event) == 0, "rdma_ack_cm_event");
    rdma_cm_event told = copy;
    told.param.conn.private_data = private_data.data();
    on_event(told);
  }
  Require(errno == EAGAIN, "rdma_get_cm_event");
}

void Station::TakeMessages(const std::function<void(uint32_t slot)>& on_message) {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(completions_, &cq, &context) == 0) ibv_ack_cq_events(cq, 1);
  Require(ibv_req_notify_cq(cq_, 0) == 0, "ibv_req_notify_cq");
  ibv_wc completion{};
  while (ibv_poll_cq(cq_, 1, &completion) > 0) {
    if (completion.status == IBV_WC_WR_FLUSH_ERR) continue;
    if (completion.status != IBV_WC_SUCCESS) {
      throw std::runtime_error(std::string("a request failed: ") +
                               ibv_wc_status_str(completion.status));
    }
    if (completion.opcode == IBV_WC_RECV) on_message(static_cast<uint32_t>(completion.wr_id));
  }
}

}  // namespace churn
