#include "verbs_provider/data_path/work_request_builder.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/endpoint.h"
#include "verbs_provider/abi/newer_verbs.h"
#include "verbs_provider/abi/provider_registration.h"
#include "verbs_provider/base/c_boundary.h"
#include "verbs_provider/data_path/work_requests.h"
#include "verbs_provider/objects/queue_pair.h"

namespace uroce::verbs {

using transport::SendOpcode;

void WorkRequestBuilder::Start() {
  lock_.lock();
  requests_.clear();
  sge_ranges_.clear();
  sges_.clear();
  inline_bytes_.clear();
  windows_.clear();
  error_ = 0;
}

transport::SendWorkRequest& WorkRequestBuilder::Add(SendOpcode opcode) noexcept {
  const ibv_qp_ex& ex = qp_.verbs.ex;
  const uint32_t most = qp_.transport->init_attributes().capabilities.max_send_wr;
  if (error_ == 0 && requests_.size() >= most) Fail(ENOMEM);
  Fail(ReturningErrno([&] {
    if (error_ != 0) return error_;
    requests_.emplace_back();
    sge_ranges_.emplace_back();
    return 0;
  }));
  if (error_ != 0) return refused_;

  transport::SendWorkRequest& request = requests_.back();
  request.wr_id = ex.wr_id;
  request.opcode = opcode;
  // Data becomes inline by ibv_wr_set_inline_data, not by a flag.
  Fail(ApplySendFlags(ex.wr_flags & ~static_cast<unsigned int>(IBV_SEND_INLINE), request));
  return request;
}

void WorkRequestBuilder::AddBinding(ibv_mw* window, uint32_t new_rkey,
                                    const ibv_mw_bind_info& info) noexcept {
  transport::SendWorkRequest& request = Add(SendOpcode::kBindWindow);
  if (window->type != IBV_MW_TYPE_2) return Fail(EINVAL);
  Fail(SetBinding(window, new_rkey, info, request));
  Fail(ReturningErrno([&] {
    windows_.push_back({window, BoundKey(*window, request)});
    return 0;
  }));
}

void WorkRequestBuilder::SetDestination(ibv_ah* ah, uint32_t remote_qpn,
                                        uint32_t remote_qkey) noexcept {
  if (error_ != 0) return;
  if (requests_.empty()) return Fail(EINVAL);
  Fail(verbs::SetDestination(qp_, ah, remote_qpn, remote_qkey, requests_.back()));
}

void WorkRequestBuilder::SetSrqn(uint32_t remote_srqn) noexcept {
  if (error_ != 0) return;
  if (requests_.empty()) return Fail(EINVAL);
  requests_.back().remote_srqn = ToSrqn(remote_srqn);
}

void WorkRequestBuilder::SetSges(std::span<const ibv_sge> sges) noexcept {
  if (error_ != 0) return;
  if (requests_.empty()) return Fail(EINVAL);
  Fail(ReturningErrno([&] {
    sge_ranges_.back() = {sges_.size(), sges.size()};
    requests_.back().inline_data = false;
    for (const ibv_sge& sge : sges) {
      sges_.push_back({sge.addr, sge.length, transport::LKey{sge.lkey}});
    }
    return 0;
  }));
}

void WorkRequestBuilder::SetInlineData(std::span<const ibv_data_buf> buffers) noexcept {
  if (error_ != 0) return;
  if (requests_.empty()) return Fail(EINVAL);
  Fail(ReturningErrno([&] {
    const size_t begin = inline_bytes_.size();
    const uint32_t most = qp_.transport->init_attributes().capabilities.max_inline_bytes;
    for (const ibv_data_buf& buffer : buffers) {
      if (buffer.length > most - (inline_bytes_.size() - begin)) return EINVAL;
      const auto* bytes = static_cast<const uint8_t*>(buffer.addr);
      inline_bytes_.insert(inline_bytes_.end(), bytes, bytes + buffer.length);
    }
    requests_.back().inline_data = true;
    sge_ranges_.back() = {sges_.size(), 1};
    sges_.push_back({begin, static_cast<uint32_t>(inline_bytes_.size() - begin), {}});
    return 0;
  }));
}

int WorkRequestBuilder::Complete() {
  const int result = SettingErrno([&] {
    const int error = error_ != 0 ? error_ : Post();
    if (error == 0) {
      for (const BoundWindow& bound : windows_) bound.window->rkey = bound.rkey;
    }
    return error;
  });
  lock_.unlock();
  return result;
}

void WorkRequestBuilder::Abort() { lock_.unlock(); }

int WorkRequestBuilder::Post() {
  if (qp_.device->lost_by_fork()) return EIO;
  const auto inline_base = reinterpret_cast<uintptr_t>(inline_bytes_.data());
  for (size_t i = 0; i < requests_.size(); ++i) {
    const auto sges = std::span(sges_).subspan(sge_ranges_[i].first, sge_ranges_[i].count);
    if (requests_[i].inline_data) sges.front().address += inline_base;
    requests_[i].sges = sges;
  }
  nic::Engine& engine = *qp_.engine;
  const nic::Engine::Verb verb(engine);
  if (requests_.size() == 1) {  // a single request may go out at once
    return static_cast<int>(engine.PostSend(verb, *qp_.transport, requests_.front()));
  }
  return static_cast<int>(qp_.transport->PostSends(requests_));
}

namespace {

WorkRequestBuilder& Builder(ibv_qp_ex* qp) { return *QueuePair::From(qp).builder; }

// The program holds the builder's lock from Start to Complete or Abort, which no analysis can see.
void Start(ibv_qp_ex* qp) UROCE_NO_THREAD_SAFETY_ANALYSIS { Builder(qp).Start(); }
int Complete(ibv_qp_ex* qp) UROCE_NO_THREAD_SAFETY_ANALYSIS { return Builder(qp).Complete(); }
void Abort(ibv_qp_ex* qp) UROCE_NO_THREAD_SAFETY_ANALYSIS { Builder(qp).Abort(); }

void Send(ibv_qp_ex* qp) { Builder(qp).Add(SendOpcode::kSend); }

void SendImmediate(ibv_qp_ex* qp, __be32 immediate) {
  Builder(qp).Add(SendOpcode::kSendWithImmediate).immediate = immediate;
}

void SendInvalidate(ibv_qp_ex* qp, uint32_t rkey) {
  Builder(qp).Add(SendOpcode::kSendWithInvalidate).invalidate_rkey = transport::RKey{rkey};
}

transport::SendWorkRequest& AddRdma(ibv_qp_ex* qp, SendOpcode opcode, uint32_t rkey,
                                    uint64_t remote_address) {
  transport::SendWorkRequest& request = Builder(qp).Add(opcode);
  request.rkey = transport::RKey{rkey};
  request.remote_address = remote_address;
  return request;
}

void RdmaWrite(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_address) {
  AddRdma(qp, SendOpcode::kRdmaWrite, rkey, remote_address);
}

void RdmaWriteImmediate(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_address, __be32 immediate) {
  AddRdma(qp, SendOpcode::kRdmaWriteWithImmediate, rkey, remote_address).immediate = immediate;
}

void RdmaRead(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_address) {
  AddRdma(qp, SendOpcode::kRdmaRead, rkey, remote_address);
}

void CompareAndSwap(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_address, uint64_t compare,
                    uint64_t swap) {
  auto& request = AddRdma(qp, SendOpcode::kCompareAndSwap, rkey, remote_address);
  request.compare_or_add = compare;
  request.swap = swap;
}

void FetchAndAdd(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_address, uint64_t add) {
  AddRdma(qp, SendOpcode::kFetchAndAdd, rkey, remote_address).compare_or_add = add;
}

// The number is taken now: the program may change it before the batch is complete.
void AtomicWrite(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_address, const void* number) {
  AddRdma(qp, SendOpcode::kAtomicWrite, rkey, remote_address);
  const ibv_data_buf buffer = {.addr = const_cast<void*>(number), .length = sizeof(uint64_t)};
  Builder(qp).SetInlineData(std::span(&buffer, 1));
}

void Flush(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_address, size_t length, uint8_t type,
           uint8_t level) {
  auto& request = AddRdma(qp, SendOpcode::kFlush, rkey, remote_address);
  request.placement = type;
  request.selectivity = static_cast<transport::Selectivity>(level);
  // FLUSH of a region ignores the length. FLUSH of a range is refused later if it is too long.
  if (level == abi::kFlushMr) length = 0;
  request.flush_length = static_cast<uint32_t>(std::min<size_t>(length, UINT32_MAX));
}

void BindWindow(ibv_qp_ex* qp, ibv_mw* window, uint32_t rkey, const ibv_mw_bind_info* info) {
  Builder(qp).AddBinding(window, rkey, *info);
}

void LocalInvalidate(ibv_qp_ex* qp, uint32_t rkey) {
  Builder(qp).Add(SendOpcode::kLocalInvalidate).invalidate_rkey = transport::RKey{rkey};
}

void SetUdAddress(ibv_qp_ex* qp, ibv_ah* ah, uint32_t remote_qpn, uint32_t remote_qkey) {
  Builder(qp).SetDestination(ah, remote_qpn, remote_qkey);
}

void SetXrcSrqn(ibv_qp_ex* qp, uint32_t remote_srqn) { Builder(qp).SetSrqn(remote_srqn); }

void SetSge(ibv_qp_ex* qp, uint32_t lkey, uint64_t address, uint32_t length) {
  const ibv_sge sge = {.addr = address, .length = length, .lkey = lkey};
  Builder(qp).SetSges(std::span(&sge, 1));
}

void SetSgeList(ibv_qp_ex* qp, size_t count, const ibv_sge* list) {
  Builder(qp).SetSges(std::span(list, count));
}

void SetInlineData(ibv_qp_ex* qp, void* address, size_t length) {
  const ibv_data_buf buffer = {.addr = address, .length = length};
  Builder(qp).SetInlineData(std::span(&buffer, 1));
}

void SetInlineDataList(ibv_qp_ex* qp, size_t count, const ibv_data_buf* list) {
  Builder(qp).SetInlineData(std::span(list, count));
}

}  // namespace

namespace {

bool HasMember(size_t offset) { return offset + sizeof(void (*)()) <= abi::ExtendedQpBytes(); }

template <class Function>
void SetMember(abi::VerbsQp& qp, size_t offset, Function function) {
  if (HasMember(offset)) std::memcpy(qp.reserve + offset, &function, sizeof function);
}

// Operations that only newer releases of libibverbs have in ibv_qp_ex.
uint64_t NewerOperations() {
  return (HasMember(abi::kWrAtomicWriteAt) ? abi::kQpExWithAtomicWrite : 0) |
         (HasMember(abi::kWrFlushAt) ? abi::kQpExWithFlush : 0);
}

}  // namespace

uint64_t BuilderOperations(ibv_qp_type type) {
  constexpr uint64_t kDatagram = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  constexpr uint64_t kUnreliable = kDatagram | IBV_QP_EX_WITH_RDMA_WRITE |
                                   IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_LOCAL_INV |
                                   IBV_QP_EX_WITH_BIND_MW;
  constexpr uint64_t kReliable = kUnreliable | IBV_QP_EX_WITH_SEND_WITH_INV |
                                 IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
  switch (RawValue(type)) {
    case IBV_QPT_UD:
      return kDatagram;
    case IBV_QPT_UC:
      return kUnreliable;
    case IBV_QPT_RAW_PACKET:
      return IBV_QP_EX_WITH_SEND;
    case IBV_QPT_XRC_RECV:
      return 0;
    default:
      return kReliable | NewerOperations();
  }
}

void SetBuilderFunctions(abi::VerbsQp& qp) {
  SetMember<abi::WrAtomicWrite>(qp, abi::kWrAtomicWriteAt, AtomicWrite);
  SetMember<abi::WrFlush>(qp, abi::kWrFlushAt, Flush);
  ibv_qp_ex& ex = qp.ex;
  ex.wr_start = Start;
  ex.wr_complete = Complete;
  ex.wr_abort = Abort;
  ex.wr_send = Send;
  ex.wr_send_imm = SendImmediate;
  ex.wr_send_inv = SendInvalidate;
  ex.wr_rdma_write = RdmaWrite;
  ex.wr_rdma_write_imm = RdmaWriteImmediate;
  ex.wr_rdma_read = RdmaRead;
  ex.wr_atomic_cmp_swp = CompareAndSwap;
  ex.wr_atomic_fetch_add = FetchAndAdd;
  ex.wr_bind_mw = BindWindow;
  ex.wr_local_inv = LocalInvalidate;
  ex.wr_set_ud_addr = SetUdAddress;
  ex.wr_set_xrc_srqn = SetXrcSrqn;
  ex.wr_set_sge = SetSge;
  ex.wr_set_sge_list = SetSgeList;
  ex.wr_set_inline_data = SetInlineData;
  ex.wr_set_inline_data_list = SetInlineDataList;
}

}  // namespace uroce::verbs
