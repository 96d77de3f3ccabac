// Work requests that are wrong on purpose.

#include "tests/simulation/application.h"

namespace uroce::simulation {

using transport::CompletionStatus;
using transport::LKey;
using transport::RKey;
using transport::SendOpcode;

bool Application::DrawPoison(Draft& draft) {
  Arena& remote = peer_->exposed_;
  const uint64_t middle = remote.address(remote.size() / 16 * 8);
  CompletionStatus& status = draft.sent.expected_status;
  status = CompletionStatus::kRemoteAccessError;
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
    case Poison::kReceiveTooSmall: {
      draft.request.opcode = SendOpcode::kSend;
      status = CompletionStatus::kRemoteInvalidRequest;
      draft.sges.push_back(source_.entry(0, config_.max_message_bytes + 1));
      draft.sent.length = config_.max_message_bytes + 1;
      draft.message.emplace();
      draft.message->length = draft.sent.length;
      return true;
    }
    default:
      status = CompletionStatus::kSuccess;
      return false;
  }
}

// A WRITE, READ or atomic that the peer has to refuse.
void Application::DrawAnyRemote(Draft& draft, uint64_t address, RKey rkey, uint32_t length) {
  draft.request.opcode =
      random_.Pick({SendOpcode::kRdmaWrite, SendOpcode::kRdmaRead, SendOpcode::kFetchAndAdd});
  if (IsAtomic(draft.request.opcode)) {
    length = 8;
    address += config_.end.poison == Poison::kOutOfRange ? 8 : 0;
  }
  draft.request.remote_address = address;
  draft.request.rkey = rkey;
  draft.sges.push_back(IsWrite(draft.request.opcode) ? source_.entry(0, length)
                                                     : sink_.entry(0, length));
  draft.sent.length = length;
}

}  // namespace uroce::simulation
