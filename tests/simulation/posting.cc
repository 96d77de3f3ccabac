// Which work requests an application posts.

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/simulation/application.h"

namespace uroce::transport::simulation {
namespace {

constexpr bool HasImmediate(SendOpcode opcode) {
  return opcode == SendOpcode::kSendWithImmediate || opcode == SendOpcode::kRdmaWriteWithImmediate;
}

}  // namespace

void Application::PostReceives() {
  if (!has_receive_queue()) return;
  const uint32_t room = config_.end.capabilities.max_receive_wr;
  uint64_t burst = config_.end.posts_single_receives ? 1 : random_.Between(1, room);
  for (; burst > 0 && inbox_.outstanding() < room; --burst) {
    if (!PostReceive()) return;
  }
}

bool Application::PostReceive() {
  const PostedReceive* receive = inbox_.Draw();
  if (receive == nullptr) return false;
  const auto sges = inbox_.SgesOf(*receive);
  if (qp_->PostReceive({receive->wr_id, sges}) != Status::kOk) {
    context_.verdict.Fail("QP ", qpn_.value, " refuses receive ", receive->wr_id & ~kReceiveBit,
                          " with ", inbox_.outstanding() - 1, " outstanding");
  }
  return true;
}

void Application::PostSends() {
  const EndScenario& end = config_.end;
  for (uint64_t burst = random_.Between(1, end.capabilities.max_send_wr); burst > 0; --burst) {
    if (posted_ >= end.work_requests || sends_->outstanding() >= end.capabilities.max_send_wr) {
      return;
    }
    if (session_.poisoned && posted_ == end.poison_at) {
      if (end.poison == Poison::kMoveToError) return MoveToError();
      if (TakesMemoryAway(end.poison)) TakeMemoryAway();
    }
    PostSend();
  }
}

void Application::PostSend() {
  Draft draft;
  if (Draw(draft)) return Finish(draft);
  Draft sync;
  DrawSync(sync);
  Finish(sync);
}

// The flags that every request may have.
void Application::Finish(Draft& draft) {
  const EndScenario& end = config_.end;
  SendWorkRequest& request = draft.request;
  // Without a completion now and then the application never learns that the queue has room.
  const bool is_last =
      posted_ + 1 == end.work_requests || sends_->outstanding() + 1 == end.capabilities.max_send_wr;
  request.signaled |= is_last || !random_.Percent(end.unsignaled_percent);
  // With an unreliable service the receiver cannot tell several short messages apart.
  const bool recognizable = reliable() || HasImmediate(request.opcode) || draft.sent.length >= 8;
  request.solicited = recognizable && random_.Percent(30);
  request.fence |= random_.Percent(5);
  Post(draft);
}

void Application::Post(Draft& draft) {
  SendWorkRequest& request = draft.request;
  request.wr_id = uint64_t{qpn_.value} << 32 | posted_ever_++;
  ++posted_;
  request.sges = draft.sges;
  if (request.fence) reads_in_flight_.clear();
  if (request.opcode == SendOpcode::kRdmaRead && request.sges.size() != 0) {
    reads_in_flight_.push_back(
        {draft.sent.remote_offset, draft.sent.remote_offset + draft.sent.length});
  }
  SentRequest& sent = draft.sent;
  sent.wr_id = request.wr_id;
  sent.opcode = request.opcode;
  sent.signaled = request.signaled || config_.end.signal_all;
  if (draft.window != nullptr) {
    ++draft.window->users;
    // A flushed request may be on its way: it uses the window until the session ends.
    sent.when_done = [window = draft.window] { --window->users; };
  }
  if (is_initiator()) {
    const size_t queue = random_.Below(XrcReceives::kQueues);
    request.remote_srqn = peer_->xrc_->srqn(queue);
    if (draft.message.has_value()) draft.message->queue = queue;
  }
  if (draft.message.has_value()) {
    draft.message->opcode = request.opcode;
    draft.message->immediate = request.immediate;
    draft.message->invalidate_rkey = request.invalidate_rkey;
    draft.message->solicited = request.solicited;
    MessageStream& stream = peer_->receives_->sent();
    const size_t number = stream.Add(std::move(*draft.message));
    // A request that an unreliable service flushes was not sent, or not to its end.
    if (!reliable()) {
      sent.when_flushed = [&stream, number, before = sent.when_flushed] {
        stream.Cancel(number);
        if (before) before();
      };
    }
  }
  context_.trace.OnEvent(context_.simulator.now(), "posts",
                         {{"qp", qpn_.value},
                          {"wr", request.wr_id},
                          {"opcode", static_cast<uint64_t>(request.opcode)},
                          {"bytes", sent.length},
                          {"signaled", sent.signaled},
                          {"fence", request.fence},
                          {"inline", request.inline_data},
                          {"sges", request.sges.size()}});
  sends_->OnPosted(std::move(sent));
  if (host_.PostSend(*qp_, request) != Status::kOk) {
    context_.verdict.Fail("QP ", qpn_.value, " refuses request ", posted_ - 1, " with ",
                          sends_->outstanding() - 1, " outstanding");
  }
  // Inline data was copied: the program may use its memory again.
  std::fill(draft.inline_bytes.begin(), draft.inline_bytes.end(), uint8_t{0xdd});
}

// A request posted to a queue pair in ERR is flushed at once.
void Application::PostIntoError() {
  if (std::exchange(session_.posted_into_error, true) || is_target()) return;
  Draft draft;
  draft.request.opcode = SendOpcode::kSend;
  draft.message.emplace();
  Post(draft);
  if (has_receive_queue()) PostReceive();
}

bool Application::Draw(Draft& draft) {
  const EndScenario& end = config_.end;
  if (session_.poisoned && posted_ == end.poison_at) return DrawPoison(draft);
  const bool usual = end.one_kind != 0 && random_.Percent(80);
  const uint64_t kind = usual ? end.one_kind : random_.Between(1, 10);
  if (!reliable() && ((kind >= 5 && kind <= 7) || kind >= 9)) return DrawWrite(draft);
  switch (kind) {
    case 1:
    case 2:
      return DrawSend(draft);
    case 3:
    case 4:
      return DrawWrite(draft);
    case 5:
      return DrawRead(draft);
    case 6:
      return DrawAtomic(draft);
    case 7:
      return DrawSharedAddition(draft);
    case 9:
      return DrawAtomicWrite(draft);
    case 10:
      return DrawFlush(draft);
    default:
      return DrawWindowChange(draft);
  }
}

// Brings only a completion: used when no memory is left for more.
void Application::DrawSync(Draft& draft) {
  draft.request.opcode = SendOpcode::kRdmaWrite;
  draft.request.signaled = true;
}

bool Application::DrawSend(Draft& draft) {
  SendWorkRequest& request = draft.request;
  request.opcode = random_.Pick({SendOpcode::kSend, SendOpcode::kSendWithImmediate});
  request.immediate = static_cast<uint32_t>(random_.Next());
  auto bytes = DrawSource(draft, DrawLength());
  if (!bytes.has_value()) return false;
  for (Window& window : peer_->windows_) {
    if (!reliable() || !window.usable || !random_.Percent(30)) continue;
    request.opcode = SendOpcode::kSendWithInvalidate;
    request.immediate = 0;
    request.invalidate_rkey = window.key;
    request.fence |= !reads_in_flight_.empty();  // a READ executed again would miss the window
    window.usable = false;
    draft.sent.when_done = [&window] { window.changing = false; };
    window.changing = true;
    break;
  }
  const auto length = static_cast<uint32_t>(bytes->size());
  draft.message.emplace();
  draft.message->bytes = std::move(*bytes);
  draft.message->length = length;
  return true;
}

bool Application::DrawWrite(Draft& draft) {
  SendWorkRequest& request = draft.request;
  request.opcode = random_.Pick({SendOpcode::kRdmaWrite, SendOpcode::kRdmaWriteWithImmediate});
  request.immediate = static_cast<uint32_t>(random_.Next());
  const auto bytes = DrawSource(draft, DrawLength());
  if (!bytes.has_value()) return false;
  const Target target = DrawTarget(bytes->size(), 1);
  Aim(draft, target);
  ChangeRemote(draft, target.offset, *bytes);
  if (request.opcode == SendOpcode::kRdmaWriteWithImmediate) {
    draft.message.emplace();
    draft.message->length = draft.sent.length;
  }
  return true;
}

bool Application::DrawRead(Draft& draft) {
  draft.request.opcode = SendOpcode::kRdmaRead;
  const uint32_t length = DrawLength();
  const Target target = DrawTarget(length, 1);
  const auto from = sends_->remote().begin() + static_cast<std::ptrdiff_t>(target.offset);
  if (!DrawSink(draft, std::vector<uint8_t>(from, from + length))) return false;
  Aim(draft, target);
  draft.sent.remote_offset = target.offset;
  return true;
}

bool Application::DrawAtomic(Draft& draft) {
  SendWorkRequest& request = draft.request;
  const Target target = DrawTarget(8, 8);
  uint64_t original;
  std::memcpy(&original, &sends_->remote()[target.offset], 8);
  uint64_t result;
  if (random_.Percent(50)) {
    request.opcode = SendOpcode::kCompareAndSwap;
    request.compare_or_add = random_.Percent(60) ? original : random_.Next();
    request.swap = random_.Next();
    result = request.compare_or_add == original ? request.swap : original;
  } else {
    request.opcode = SendOpcode::kFetchAndAdd;
    request.compare_or_add = random_.Next();
    result = original + request.compare_or_add;
  }
  uint8_t bytes[8];
  std::memcpy(bytes, &original, 8);
  if (!DrawSink(draft, bytes)) return false;
  Aim(draft, target);
  std::memcpy(bytes, &result, 8);
  ChangeRemote(draft, target.offset, bytes);
  return true;
}

bool Application::DrawAtomicWrite(Draft& draft) {
  draft.request.opcode = SendOpcode::kAtomicWrite;
  const auto bytes = DrawOwnSource(draft, 8);
  if (!bytes.has_value()) return false;
  const Target target = DrawTarget(8, 8);
  Aim(draft, target);
  ChangeRemote(draft, target.offset, *bytes);
  return true;
}

// A FLUSH changes no memory: the test sees only that it succeeds, once, in its turn. Windows do not
// permit it.
bool Application::DrawFlush(Draft& draft) {
  Arena& remote = peer_->exposed_;
  SendWorkRequest& request = draft.request;
  request.opcode = SendOpcode::kFlush;
  request.placement = Placement::kGlobal;
  request.rkey = remote.rkey();
  if (random_.Percent(30)) {
    request.selectivity = Selectivity::kRegion;
    request.remote_address = random_.Next();
    request.flush_length = static_cast<uint32_t>(random_.Below(1 << 20));
    return true;
  }
  const uint64_t offset = random_.Below(remote.size());
  request.remote_address = remote.address(offset);
  request.flush_length = static_cast<uint32_t>(random_.Between(0, remote.size() - offset));
  return true;
}

bool Application::DrawSharedAddition(Draft& draft) {
  // Few enough to work out which of the additions that a session leaves behind were carried out.
  if (sends_->additions_outstanding() >= 4) return false;
  const uint64_t word = random_.Below(SharedCounters::kWords);
  Arena& words = peer_->host_.counters().arena();
  draft.request.opcode = SendOpcode::kFetchAndAdd;
  draft.request.compare_or_add = random_.Between(1, 1'000);
  draft.request.remote_address = words.address(word * 8);
  draft.request.rkey = words.rkey();
  draft.sent.counter = word;
  draft.sent.counter_delta = draft.request.compare_or_add;
  const uint8_t unknown[8] = {};
  return DrawSink(draft, unknown);
}

// Binds one of our windows for the peer, or invalidates it.
bool Application::DrawWindowChange(Draft& draft) {
  Window& window = windows_[random_.Below(windows_.size())];
  if (window.changing) return false;
  SendWorkRequest& request = draft.request;
  request.signaled = true;
  if (window.usable) {
    if (window.users != 0) return false;
    request.opcode = SendOpcode::kLocalInvalidate;
    request.invalidate_rkey = window.key;
    window.usable = false;
    draft.sent.when_done = [&window] { window.changing = false; };
    draft.sent.when_flushed = [&window] {
      window.changing = false;
      window.usable = true;
    };
  } else {
    request.opcode = SendOpcode::kBindWindow;
    window.offset = random_.Below(exposed_.size() / 2);
    window.length = random_.Between(64, exposed_.size() - window.offset);
    request.window = {window.key, exposed_.lkey(), exposed_.address(window.offset), window.length,
                      AccessFlags(AccessFlags::kRemoteWrite | AccessFlags::kRemoteRead |
                                  AccessFlags::kRemoteAtomic)};
    request.rkey = RKey{(window.key.value & ~0xffu) | ((window.key.value + 1) & 0xff)};
    draft.sent.when_done = [&window, key = request.rkey] {
      window.key = key;
      window.usable = true;
      window.changing = false;
    };
    draft.sent.when_flushed = [&window] { window.changing = false; };
  }
  window.changing = true;
  return true;
}

}  // namespace uroce::transport::simulation
