// ibv_post_send, ibv_wr_complete, ibv_post_recv, ibv_post_srq_recv: a refused request has no
// effect, and no queue takes more requests than it was made for.
#include <algorithm>

#include "tests/fuzz/require.h"
#include "tests/fuzz/verbs_host.h"

namespace uroce::transport {
namespace {

uint64_t BytesIn(std::span<const ScatterGatherEntry> sges) {
  uint64_t bytes = 0;
  for (const ScatterGatherEntry& sge : sges) bytes += sge.length;
  return bytes;
}

}  // namespace

std::vector<ScatterGatherEntry> VerbsHost::Sges(Record& record, size_t most) const {
  std::vector<ScatterGatherEntry> sges(record.Below(static_cast<uint32_t>(most + 1)));
  for (ScatterGatherEntry& sge : sges) {
    const LKey key = regions_[0].value_or(LKey{1});
    sge = {Address(record.Byte() * 8), record.Byte() * 8u, key};
    if (record.Below(16) == 15) sge.lkey.value ^= 1;
  }
  return sges;
}

void VerbsHost::PostSends(Record& record, const VerbsHost& peer) {
  QpSlot& slot = qps_[record.Below(kQps)];
  if (slot.qp == nullptr) return;
  const AddressVector address = AddressOf(record, peer);
  SendWorkRequest request;
  request.opcode = static_cast<SendOpcode>(record.Below(11));
  const uint8_t flags = record.Byte();
  if (request.opcode > SendOpcode::kSendWithInvalidate && (flags & 0x40) != 0) {
    request.opcode = (flags & 0x80) != 0 ? SendOpcode::kFlush : SendOpcode::kAtomicWrite;
  }
  request.signaled = (flags & 1) != 0;
  request.solicited = (flags & 2) != 0;
  request.fence = (flags & 4) != 0;
  request.inline_data = (flags & 0x18) == 0x18;
  request.rkey = {peer.regions_[0].value_or(LKey{1}).value};
  request.remote_address = peer.Address(record.Byte() * 8);
  const uint32_t first_qpn = peer.endpoint_.config().first_qpn.value;
  request.remote_qpn = record.Flag() ? kMulticastQpn : Qpn{first_qpn + record.Below(8)};
  request.remote_qkey = (flags & 0x20) != 0 ? 0x8000'0000 : 0x42;
  AddressVector group = address;
  if (request.remote_qpn == kMulticastQpn) {
    group = {.destination_gid = Gid::FromIpv4({224, 0, 0, 1}),
             .destination_mac = {1, 0, 0x5e, 0, 0, 1},
             .source_gid_index = 1};
  }
  request.address = &group;
  RKey& window = windows_[record.Below(2)];
  request.invalidate_rkey = window;
  request.placement = flags & 3;
  request.selectivity = static_cast<Selectivity>(flags >> 2 & 1);
  request.flush_length = flags;
  const std::vector<ScatterGatherEntry> sges = Sges(record, 3);
  request.sges = sges;
  if (request.opcode == SendOpcode::kBindWindow) {
    request.rkey.value = (window.value & ~0xffu) | ((window.value + 1) & 0xff);
    request.window = {window, regions_[0].value_or(LKey{1}), Address(0), flags,
                      AccessFlags(AccessFlags::kRemoteRead)};
  }

  // One request, or a list that is accepted whole or not at all.
  std::vector<SendWorkRequest> requests(1 + flags / 64u, request);
  const uint64_t first_id = ledger_.NextId(slot.sends);
  for (size_t i = 0; i < requests.size(); ++i) requests[i].wr_id = first_id + i;
  const Psn sq_psn = slot.qp->Query().sq_psn;
  const Status status =
      requests.size() == 1 ? slot.qp->PostSend(requests[0]) : slot.qp->PostSends(requests);
  UROCE_REQUIRE(slot.qp->Query().sq_psn == sq_psn);
  UROCE_REQUIRE(status != Status::kOk || slot.qp->state() >= QpState::kReadyToSend);
  if (status != Status::kOk) return;
  if (request.opcode == SendOpcode::kBindWindow) window = request.rkey;
  for (size_t i = 0; i < requests.size(); ++i) {
    ledger_.OnPosted(slot.sends, request.signaled || slot.qp->init_attributes().signal_all,
                     BytesIn(sges));
  }
}

void VerbsHost::PostReceive(Record& record) {
  QpSlot& slot = qps_[record.Below(kQps)];
  const bool to_shared = record.Flag();
  SrqSlot& shared = srqs_[record.Below(kSrqs)];
  const bool exists = to_shared ? shared.srq != nullptr : slot.qp != nullptr;
  if (!exists) return;
  const VerbsLedger::Account account = to_shared ? shared.account : slot.receives;
  const std::vector<ScatterGatherEntry> sges = Sges(record, 3);
  const ReceiveWorkRequest request = {ledger_.NextId(account), sges};
  const Status status = to_shared ? shared.srq->Post(request) : slot.qp->PostReceive(request);
  if (!to_shared) {
    const bool may = slot.qp->state() != QpState::kReset && slot.srq == nullptr &&
                     sges.size() <= slot.qp->init_attributes().capabilities.max_receive_sge;
    UROCE_REQUIRE(may ? status != Status::kInvalidArgument : status == Status::kInvalidArgument);
  }
  if (status == Status::kOk) ledger_.OnPosted(account, /*signaled=*/true, BytesIn(sges));
}

}  // namespace uroce::transport
