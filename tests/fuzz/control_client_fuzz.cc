#include "tests/fuzz/control_client_fuzz.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "tests/fuzz/require.h"

namespace uroce::nic::control {
namespace {

using transport::Record;
using State = ControlClient::State;
using Status = MessageChannel::Status;

constexpr size_t kPublishedState = 0;  // a known descriptor
constexpr uint32_t kMtuBytes = 1'500;
// Generous bound for a step of a microsecond on a busy machine.
constexpr int kSoon_ms = 10'000;

ControlClient::Options OptionsFor(const std::string& fabric) {
  ControlClient::Options options;
  options.fabric = fabric;
  options.mtu_bytes = kMtuBytes;
  options.published_state_fd = KnownDescriptor(kPublishedState);
  options.retry_interval = {1};
  return options;
}

template <Message T>
std::optional<T> As(const std::optional<ControlStream::Peeked>& peeked) {
  if (!peeked || peeked->type != T::kType) return {};
  T message;
  memcpy(&message, peeked->body.data(), sizeof message);
  return message;
}

bool IsSound(const Welcome& welcome) {
  return welcome.block != kSwitchBlock && welcome.block <= kLastBlock &&
         welcome.gid_count <= kMaxGids;
}

// Whether uroced sends messages of this type to attached processes.
bool IsNews(MessageType type) {
  return type >= MessageType::kLinkAnswer && type <= MessageType::kPortState;
}

}  // namespace

ControlClientFuzz::ControlClientFuzz()
    : fabric_("fuzz-" + std::to_string(getpid())),
      listener_(FabricListener::Open(fabric_)),
      client_(OptionsFor(fabric_)),
      wait_fd_(client_.wait_fd()) {
  UROCE_REQUIRE(listener_.has_value());
}

void ControlClientFuzz::Step(Record record) {
  switch (record.Below(16)) {
    case 0:
      Serve();
      break;
    case 1:
      Take();
      break;
    case 2:
    case 3:
      ServeAndTakeAll();
      break;
    case 4:
      WaitAndServe();
      break;
    case 5:
      Send(record);
      break;
    case 6:
    case 7:
      SayAnyWelcome(record);
      break;
    case 8:
    case 9:
    case 10:
      SayAnything(record);
      break;
    case 11:
      Hear();
      break;
    case 12:
      if (record.Flag()) {
        HangUp();
      } else {
        StartOrEndUroced();
      }
      break;
    case 13:
      if (record.Byte() == 0xff) SayMessage(Refused{.error = 13, .sentence = {'x'}});
      break;
    case 14:
      Hear();
      break;
    case 15:
      if (!record.Flag() && uroced_.fd() >= 0) {
        deaf_ = shutdown(uroced_.fd(), SHUT_RD) == 0 || deaf_;
      }
      break;
  }
  UROCE_REQUIRE(client_.wait_fd() == wait_fd_ && client_.attachments() == attachments_);
  UROCE_REQUIRE(client_.refusal().sentence.back() == '\0');
}

void ControlClientFuzz::StartOrEndUroced() {
  if (!listener_) {
    listener_ = FabricListener::Open(fabric_);
    UROCE_REQUIRE(listener_.has_value());
    return;
  }
  listener_.reset();
  HangUp();
}

// The client has just connected.
void ControlClientFuzz::Accept() {
  uroced_.Reset(UniqueFd(accept4(listener_->fd(), nullptr, nullptr, SOCK_CLOEXEC)));
  UROCE_REQUIRE(uroced_.Receive(incoming_) == Status::kOk);
  const auto resume = incoming_.As<Resume>();
  const auto hello = resume ? std::optional(resume->hello) : incoming_.As<Hello>();
  UROCE_REQUIRE(hello && hello->mtu_bytes == kMtuBytes);
  UROCE_REQUIRE(resume ? resume->block == block_ && IndexOf(incoming_.fds[1]) == claim_
                       : block_ == 0);
  UROCE_REQUIRE(IndexOf(incoming_.fds[0]) == kPublishedState);
  hung_up_ = deaf_ = knows_deafness_ = false;
  to_client_ = {};
  to_uroced_ = {};
}

void ControlClientFuzz::HangUp() {
  uroced_.Reset({});
  hung_up_ = true;
}

void ControlClientFuzz::Say(std::span<const uint8_t> bytes, std::span<const size_t> descriptors) {
  if (hung_up_ || bytes.empty()) return;
  const size_t sent = SendRaw(uroced_.fd(), bytes, descriptors);
  if (sent > 0) to_client_.Append(bytes.first(sent), descriptors);
}

template <Message T>
void ControlClientFuzz::SayMessage(const T& message, size_t first_descriptor) {
  const std::span<const uint8_t> body(reinterpret_cast<const uint8_t*>(&message), sizeof message);
  const DraftMessage draft = DraftCorrectMessage(T::kType, body, first_descriptor);
  Say(draft.bytes, draft.descriptors);
}

void ControlClientFuzz::SayWelcome(Block block, uint32_t gid_count, size_t claim) {
  Welcome welcome{};
  welcome.block = block;
  welcome.gid_count = gid_count;
  SayMessage(welcome, claim);
}

void ControlClientFuzz::SayAnyWelcome(Record& record) {
  Block block = block_;
  switch (record.Below(4)) {
    case 0:
      block = record.Word() % (kLastBlock + 8);
      break;
    case 1:
      break;
    default:
      if (block == 0) block = 1 + record.Below(8);
      break;
  }
  const uint32_t gids = record.Byte() < 250 ? 0 : kMaxGids + record.Below(2);
  SayWelcome(block, gids, record.Below(kKnownDescriptors));
}

void ControlClientFuzz::SayAnything(Record& record) {
  if (record.Byte() < 16) {
    std::array<uint8_t, 16> bytes;
    for (uint8_t& byte : bytes) byte = record.Byte();
    return Say(bytes, {});
  }
  const DraftMessage draft = DraftAnyMessage(record);
  Say(draft.bytes, draft.descriptors);
}

void ControlClientFuzz::Hear() {
  if (deaf_ || hung_up_) return;
  Status status;
  while ((status = uroced_.Receive(incoming_)) == Status::kOk) to_uroced_.RequireMessage(incoming_);
  // The stream has only whole messages, so kClosed means that the client has left.
  if (status == Status::kNothing) return;
  UROCE_REQUIRE(client_.state() != State::kAttached && client_.state() != State::kAttaching);
}

bool ControlClientFuzz::HasCauseToLeave() const {
  const ControlStream::Next next = to_client_.next();
  return next == ControlStream::Next::kWrong ||
         ((hung_up_ || deaf_) && next == ControlStream::Next::kUnfinished);
}

void ControlClientFuzz::Serve() {
  const State before = client_.state();
  client_.Serve();
  switch (before) {
    case State::kDetached:
      UROCE_REQUIRE(client_.state() == State::kDetached ||
                    (client_.state() == State::kAttaching && listener_));
      if (client_.state() == State::kAttaching) Accept();
      break;
    case State::kAttaching:
      RequireAnswerWas(client_.state());
      break;
    case State::kAttached:
    case State::kRefused:
      UROCE_REQUIRE(client_.state() == before);
      break;
  }
}

// The client was waiting for its answer and is now in `state`.
void ControlClientFuzz::RequireAnswerWas(State state) {
  const auto answer = to_client_.Peek();
  const auto welcome = As<Welcome>(answer);
  const bool is_sound = welcome && IsSound(*welcome);
  const bool is_other = is_sound && block_ != 0 && welcome->block != block_;
  switch (state) {
    case State::kAttaching:
      UROCE_REQUIRE(to_client_.next() == ControlStream::Next::kUnfinished && !hung_up_);
      break;
    case State::kAttached:
      UROCE_REQUIRE(is_sound && !is_other && client_.welcome().block == welcome->block);
      block_ = welcome->block;
      claim_ = answer->first_descriptor;
      ++attachments_;
      to_client_.Skip();
      break;
    case State::kRefused:
      UROCE_REQUIRE(As<Refused>(answer) || is_other);
      break;
    case State::kDetached:
      UROCE_REQUIRE(HasCauseToLeave() || (answer && !is_sound));
      break;
  }
}

bool ControlClientFuzz::Take() {
  const State before = client_.state();
  incoming_ = {};
  if (client_.Take(incoming_)) {
    UROCE_REQUIRE(before == State::kAttached && client_.state() == State::kAttached);
    UROCE_REQUIRE(IsNews(incoming_.type));
    to_client_.RequireMessage(incoming_);
    return true;
  }
  for (const UniqueFd& fd : incoming_.fds) UROCE_REQUIRE(!fd);
  if (client_.state() == before) return false;
  UROCE_REQUIRE(before == State::kAttached);
  const auto said = to_client_.Peek();
  if (client_.state() == State::kRefused) {
    UROCE_REQUIRE(As<Refused>(said).has_value());
  } else {
    UROCE_REQUIRE(client_.state() == State::kDetached);
    UROCE_REQUIRE(HasCauseToLeave() || (said && !IsNews(said->type)));
  }
  return false;
}

void ControlClientFuzz::ServeAndTakeAll() {
  Serve();
  while (Take()) {
  }
  if (client_.state() != State::kAttached) return;
  UROCE_REQUIRE(to_client_.next() == ControlStream::Next::kUnfinished && !hung_up_);
  UROCE_REQUIRE(!knows_deafness_);
}

void ControlClientFuzz::Send(Record& record) {
  const bool with_descriptors = record.Flag();
  const uint32_t repeats = record.Flag() ? 1 : record.Word() % 1'024;
  // Nothing waits to be sent, so an attempt shows the client that uroced does not read.
  const bool shows_deafness = deaf_ && to_uroced_.empty() && client_.state() == State::kAttached;
  for (uint32_t i = 0; i < repeats; ++i) {
    LinkRequest request{};
    request.block = i;
    const Forget forget{.local = {i}};
    const std::array<size_t, 2> descriptors = {i % kKnownDescriptors, (i + 1) % kKnownDescriptors};
    const std::array<int, 2> fds = {KnownDescriptor(descriptors[0]),
                                    KnownDescriptor(descriptors[1])};
    const bool sent = with_descriptors ? client_.Send(request, fds) : client_.Send(forget);
    if (!sent) {
      knows_deafness_ = knows_deafness_ || shows_deafness;
      return;
    }
    UROCE_REQUIRE(client_.state() == State::kAttached && !shows_deafness);
    const DraftMessage draft =
        with_descriptors
            ? DraftCorrectMessage(LinkRequest::kType,
                                  {reinterpret_cast<const uint8_t*>(&request), sizeof request}, i)
            : DraftCorrectMessage(Forget::kType,
                                  {reinterpret_cast<const uint8_t*>(&forget), sizeof forget}, 0);
    to_uroced_.Append(draft.bytes, draft.descriptors);
  }
}

// Serves like a thread that sleeps until there is work.
void ControlClientFuzz::WaitAndServe() {
  if (client_.state() != State::kDetached || attachments_ == 0) return Serve();
  pollfd poll_fd{wait_fd_, POLLIN, 0};
  UROCE_REQUIRE(poll(&poll_fd, 1, kSoon_ms) == 1);
  Serve();
}

// uroced reads everything that was sent, once it listens.
void ControlClientFuzz::HearAll() {
  if (client_.state() != State::kAttached || hung_up_ || deaf_) return;
  while (!to_uroced_.empty()) {
    const size_t left = to_uroced_.left();
    Serve();
    Hear();
    UROCE_REQUIRE(to_uroced_.left() < left);
  }
}

// After any input a correct uroced can attach the client, unless an earlier one refused it.
void ControlClientFuzz::Finish() {
  HearAll();
  if (!listener_) StartOrEndUroced();
  const uint32_t before = attachments_;
  HangUp();
  ServeAndTakeAll();
  while (client_.state() != State::kRefused && attachments_ == before) {
    if (client_.state() == State::kAttaching && !hung_up_) SayWelcome(block_ != 0 ? block_ : 5, 0);
    pollfd poll_fd{wait_fd_, POLLIN, 0};
    UROCE_REQUIRE(poll(&poll_fd, 1, kSoon_ms) == 1);
    ServeAndTakeAll();
  }
  if (client_.state() != State::kAttached) return;
  SayMessage(PortState{.is_up = 1});
  Serve();
  UROCE_REQUIRE(Take() && client_.Send(Forget{}));
  UROCE_REQUIRE(uroced_.Receive(incoming_) == Status::kOk && incoming_.As<Forget>());
}

}  // namespace uroce::nic::control
