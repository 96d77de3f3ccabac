// Work requests that are wrong on purpose.

#include "tests/simulation/application.h"

namespace uroce::transport::simulation {

bool Application::DrawPoison(Draft& draft) {
  Arena& remote = peer_->exposed_;
  const uint64_t middle = remote.address(remote.size() / 16 * 8);
  CompletionStatus& status = draft.sent.expected_status;
  // The requester of an unreliable service does not learn of the error.
  status = reliable() ? CompletionStatus::kRemoteAccessError : CompletionStatus::kSuccess;
  switch (config_.end.poison) {
    case Poison::kBadRkey:
      DrawAnyRemote(draft, middle, RKey{remote.rkey().value ^ 0x55}, 8);
      return true;
    case Poison::kOutOfRange:
      DrawAnyRemote(draft, remote.address(remote.size()) - 8, remote.rkey(), 9);
      return true;
    case Poison::kNoRemoteAccess:
      DrawAnyRemote(draft, peer_->sink_.address(0), peer_->sink_.rkey(), 8);
      return true;
    case Poison::kMisalignedAtomic:
      draft.request.opcode = SendOpcode::kFetchAndAdd;
      draft.request.remote_address = middle + random_.Between(1, 7);
      draft.request.rkey = remote.rkey();
      status = CompletionStatus::kRemoteInvalidRequest;
      return DrawSink(draft, std::vector<uint8_t>(8));
    case Poison::kBadLkey:
      draft.request.opcode = SendOpcode::kRdmaWrite;
      draft.request.remote_address = middle;
      draft.request.rkey = remote.rkey();
      draft.sges.push_back({source_.address(0), 8, LKey{source_.lkey().value ^ 0x55}});
      draft.sent.length = 8;
      status = CompletionStatus::kLocalProtectionError;
      return true;
    case Poison::kReadOnlySink:
      draft.request.opcode = SendOpcode::kRdmaRead;
      draft.request.remote_address = middle;
      draft.request.rkey = remote.rkey();
      draft.sges.push_back(source_.entry(0, 8));
      draft.sent.length = 8;
      status = CompletionStatus::kLocalProtectionError;
      return true;
    case Poison::kReceiveTooSmall:
      return DrawTooLong(draft);
    case Poison::kForeignLocalInvalidate:
    case Poison::kForeignSendInvalidate:
      return DrawForeignWindow(draft);
    default:
      status = CompletionStatus::kSuccess;
      return false;
  }
}

// A SEND longer than any receive request of the peer.
bool Application::DrawTooLong(Draft& draft) {
  uint32_t room = config_.max_message_bytes;
  if (peer_->shared_ != nullptr) room = peer_->shared_->request_bytes();
  if (peer_->is_target()) room = peer_->xrc_->request_bytes();
  if (room >= source_.size()) return false;
  draft.request.opcode = SendOpcode::kSend;
  if (reliable()) draft.sent.expected_status = CompletionStatus::kRemoteInvalidRequest;
  draft.sges.push_back(source_.entry(0, room + 1));
  draft.sent.length = room + 1;
  draft.message.emplace();
  draft.message->length = draft.sent.length;
  draft.message->receive_status = CompletionStatus::kLocalLengthError;
  return true;
}

// Only the queue pair that bound a window can invalidate it.
bool Application::DrawForeignWindow(Draft& draft) {
  if (config_.end.poison == Poison::kForeignLocalInvalidate) {
    draft.request.opcode = SendOpcode::kLocalInvalidate;
    draft.request.invalidate_rkey = BindForeignWindow(*this);
    draft.sent.expected_status = CompletionStatus::kMemoryManagementError;
    return true;
  }
  draft.request.opcode = SendOpcode::kSendWithInvalidate;
  draft.request.invalidate_rkey = BindForeignWindow(*peer_);
  draft.message.emplace();
  draft.message->receive_status = CompletionStatus::kRemoteInvalidRequest;
  // The peer's receive completes in error, and the responder stops answering (IBA 9.9.3.1 class J).
  draft.sent.expected_status = CompletionStatus::kRetryExceeded;
  return true;
}

// A window over memory of `owner`, bound by a queue pair of another application.
RKey Application::BindForeignWindow(Application& owner) {
  auto& memory = owner.host_.endpoint().memory();
  const RKey key = *memory.AllocateWindow(Host::kPd, WindowType::kType2);
  const RKey bound{(key.value & ~0xffu) | ((key.value + 1) & 0xff)};
  const MemoryTable::Binding binding = {owner.exposed_.lkey(), owner.exposed_.address(0), 8,
                                        AccessFlags(AccessFlags::kRemoteRead)};
  const Qpn other_qpn{owner.qpn_.value + 1};
  if (memory.BindWindow(Host::kPd, other_qpn, key, bound, binding) != Status::kOk) {
    context_.verdict.Fail("cannot bind a window");
  }
  owner.foreign_window_ = bound;
  return bound;
}

// A request that the peer must refuse.
void Application::DrawAnyRemote(Draft& draft, uint64_t address, RKey rkey, uint32_t length) {
  draft.request.opcode =
      random_.Pick({SendOpcode::kRdmaWrite, SendOpcode::kRdmaRead, SendOpcode::kFetchAndAdd,
                    SendOpcode::kAtomicWrite, SendOpcode::kFlush});
  if (!reliable()) draft.request.opcode = SendOpcode::kRdmaWrite;
  const SendOpcode opcode = draft.request.opcode;
  draft.request.remote_address = address;
  draft.request.rkey = rkey;
  if (opcode == SendOpcode::kFlush) {
    draft.request.placement = Placement::kGlobal;
    draft.request.flush_length = length;
    return;
  }
  if (IsAtomic(opcode) || opcode == SendOpcode::kAtomicWrite) {
    length = 8;
    draft.request.remote_address += config_.end.poison == Poison::kOutOfRange ? 8 : 0;
  }
  draft.sges.push_back(ReturnsData(opcode) ? sink_.entry(0, length) : source_.entry(0, length));
  draft.sent.length = length;
}

}  // namespace uroce::transport::simulation
