#include "tests/system/agent/group_member.h"

#include <algorithm>
#include <cerrno>
#include <span>
#include <stdexcept>

namespace agent {
namespace {

using system_test::Fail;

constexpr uint16_t kNoLid = 0;
constexpr uint32_t kMulticastQpn = 0xffffff;
constexpr uint32_t kQKey = 0x11111111;

void Modify(ibv_qp* qp, ibv_qp_attr attributes, int mask) {
  const int error = ibv_modify_qp(qp, &attributes, mask | IBV_QP_STATE);
  if (error != 0) Fail("ibv_modify_qp", error);
}

}  // namespace

GroupMember::GroupMember(const system_test::Device& device, const ibv_gid& group, uint8_t gid_index)
    : group_(group),
      memory_((kReceives + 1) * kSlotBytes),
      domain_(ibv_alloc_pd(device.context())),
      completions_(ibv_create_cq(device.context(), kReceives + 1, nullptr, nullptr, 0)) {
  if (domain_ == nullptr) Fail("ibv_alloc_pd", errno);
  if (completions_ == nullptr) Fail("ibv_create_cq", errno);
  region_.reset(ibv_reg_mr(domain_.get(), memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE));
  if (region_ == nullptr) Fail("ibv_reg_mr", errno);
  ibv_qp_init_attr attributes{};
  attributes.send_cq = completions_.get();
  attributes.recv_cq = completions_.get();
  attributes.cap = {.max_send_wr = 1,
                    .max_recv_wr = kReceives,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
  attributes.qp_type = IBV_QPT_UD;
  queue_pair_.reset(ibv_create_qp(domain_.get(), &attributes));
  if (queue_pair_ == nullptr) Fail("ibv_create_qp", errno);
  ToReadyToSend(gid_index);
  for (size_t i = 0; i < kReceives; ++i) PostReceive(i);
  const int error = ibv_attach_mcast(queue_pair_.get(), &group_, kNoLid);
  if (error != 0) Fail("ibv_attach_mcast", error);
}

GroupMember::~GroupMember() {
  ibv_detach_mcast(queue_pair_.get(), &group_, kNoLid);
  ibv_destroy_ah(group_address_);
}

void GroupMember::ToReadyToSend(uint8_t gid_index) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = system_test::kPortNumber;
  attributes.qkey = kQKey;
  Modify(queue_pair_.get(), attributes, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
  attributes.qp_state = IBV_QPS_RTR;
  Modify(queue_pair_.get(), attributes, 0);
  attributes.qp_state = IBV_QPS_RTS;
  Modify(queue_pair_.get(), attributes, IBV_QP_SQ_PSN);
  ibv_ah_attr address{};
  address.is_global = 1;
  address.port_num = system_test::kPortNumber;
  address.grh.dgid = group_;
  address.grh.sgid_index = gid_index;
  address.grh.hop_limit = 1;
  group_address_ = ibv_create_ah(domain_.get(), &address);
  if (group_address_ == nullptr) Fail("ibv_create_ah", errno);
}

ibv_sge GroupMember::Slot(size_t index) {
  return {.addr = reinterpret_cast<uint64_t>(memory_.data() + index * kSlotBytes),
          .length = kSlotBytes,
          .lkey = region_->lkey};
}

void GroupMember::PostReceive(size_t index) {
  ibv_sge sge = Slot(index);
  ibv_recv_wr request{};
  request.wr_id = index;
  request.sg_list = &sge;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(queue_pair_.get(), &request, &bad);
  if (error != 0) Fail("ibv_post_recv", error);
}

void GroupMember::Send(uint8_t value) {
  std::fill_n(memory_.begin() + kReceives * kSlotBytes, kDatagramBytes, value);
  ibv_sge sge = Slot(kReceives);
  sge.length = kDatagramBytes;
  ibv_send_wr request{};
  request.wr_id = kReceives;
  request.sg_list = &sge;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.ud = {.ah = group_address_, .remote_qpn = kMulticastQpn, .remote_qkey = kQKey};
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(queue_pair_.get(), &request, &bad);
  if (error != 0) Fail("ibv_post_send", error);
  is_sending_ = true;
  while (is_sending_) CountReceived(value);  // A datagram completes once it is sent.
}

uint64_t GroupMember::CountReceived(uint8_t value) {
  ibv_wc completion;
  int count;
  while ((count = ibv_poll_cq(completions_.get(), 1, &completion)) > 0) Handle(completion);
  if (count < 0) Fail("ibv_poll_cq", errno);
  return received_[value];
}

void GroupMember::Handle(const ibv_wc& completion) {
  if (completion.status != IBV_WC_SUCCESS) {
    throw std::runtime_error(std::string("a datagram completed with '") +
                             ibv_wc_status_str(completion.status) + "'");
  }
  if (completion.wr_id == kReceives) {
    is_sending_ = false;
    return;
  }
  const std::span<const uint8_t> data(
      memory_.data() + completion.wr_id * kSlotBytes + kGlobalHeaderBytes, kDatagramBytes);
  const bool is_whole =
      completion.byte_len == kSlotBytes &&
      std::all_of(data.begin(), data.end(), [&](uint8_t byte) { return byte == data[0]; });
  if (!is_whole) throw std::runtime_error("a datagram is not what anybody sent");
  ++received_[data[0]];
  PostReceive(completion.wr_id);
}

}  // namespace agent
