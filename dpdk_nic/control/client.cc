#include "dpdk_nic/control/client.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace uroce::nic::control {
namespace {

// The client leaves a uroced whose Welcome is not sound, and tries again later.
bool IsSound(const Welcome& welcome) {
  return welcome.block >= kFirstBlock && welcome.block <= kLastBlock &&
         welcome.gid_count <= welcome.gids.size();
}

bool IsForAnAttachedProcess(MessageType type) {
  switch (type) {
    case MessageType::kLinkAnswer:
    case MessageType::kLinkOffer:
    case MessageType::kNeighbor:
    case MessageType::kDeclareAnswer:
    case MessageType::kGroupAnswer:
    case MessageType::kListenAnswer:
    case MessageType::kUnlistenAnswer:
    case MessageType::kPortState:
    case MessageType::kAddresses:
    case MessageType::kNotice:
    case MessageType::kWireSocket:
    case MessageType::kXrcDomainAnswer:
    case MessageType::kXrcDomainClosed:
      return true;
    default:
      return false;
  }
}

}  // namespace

ControlClient::ControlClient(Options options)
    : options_(std::move(options)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      retry_timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)),
      channel_(UniqueFd()) {
  if (!epoll_ || !retry_timer_) {
    Refuse(errno, "this process cannot watch its sockets (" + std::string(strerror(errno)) +
                      "): allow it more open files");
  } else {
    Watch(retry_timer_.get(), Source::kTimer);
  }
}

//                  no uroced           end of file, garbage
//                  +------+     +-------------------------------+
//                  v      |     v                               |
//   Serve ---> kDetached -+-> kAttaching ---- Welcome ----> kAttached
//              (a timer)            |                           |
//                                   +-- Refused --> kRefused <--+
void ControlClient::Serve() {
  std::array<epoll_event, 2> events;
  const int count = epoll_wait(epoll_.get(), events.data(), events.size(), 0);
  for (int i = 0; i < count; ++i) {
    switch (static_cast<Source>(events[i].data.u32)) {
      case Source::kChannel:
        if ((events[i].events & ~EPOLLOUT) != 0) channel_readable_ = true;
        channel_.Flush();
        ChannelWasWritten();
        break;
      case Source::kTimer: {
        uint64_t expirations;
        if (read(retry_timer_.get(), &expirations, sizeof expirations) > 0) retry_is_due_ = true;
        break;
      }
    }
  }
  if (state_ == State::kDetached && retry_is_due_) Connect();
  if (state_ == State::kAttaching && channel_readable_) ReadAnswer();
}

void ControlClient::Connect() {
  retry_is_due_ = false;
  UniqueFd socket = ConnectToUroced();
  connect_error_ = socket ? 0 : errno;
  channel_.Reset(std::move(socket));
  if (!SayHello()) return Detach();
  Watch(channel_.fd(), Source::kChannel);
  state_ = State::kAttaching;
}

UniqueFd ControlClient::ConnectToUroced() {
  // The block belongs to the fabric at the place where it was given.
  if (claim_) return ConnectToFabricAt(place_, options_.fabric);
  auto connection = ConnectToFabric(options_.fabric);
  if (!connection) return {};
  place_ = std::move(connection->place);
  return std::move(connection->socket);
}

bool ControlClient::SayHello() {
  const Hello hello{options_.mtu_bytes, options_.ip};
  const int state = options_.published_state_fd;
  if (!claim_) return channel_.Send(hello, std::array<int, Hello::kDescriptors>{state});
  return channel_.Send(Resume{welcome_.block, hello},
                       std::array<int, Resume::kDescriptors>{state, claim_.get()});
}

void ControlClient::ReadAnswer() {
  MessageChannel::Incoming incoming;
  switch (channel_.Receive(incoming)) {
    case MessageChannel::Status::kNothing:
      channel_readable_ = false;
      if (channel_.broken()) Detach();
      return;
    case MessageChannel::Status::kClosed:
      if (channel_.lost_descriptors()) return Refuse(EMFILE, WhyNotConnected({}, EMFILE));
      return Detach();
    case MessageChannel::Status::kOk:
      break;
  }
  if (const auto refused = incoming.As<Refused>()) return Refuse(*refused);
  const auto welcome = incoming.As<Welcome>();
  if (!welcome || !IsSound(*welcome)) return Detach();
  Attach(*welcome, std::move(incoming.fds[0]));
}

void ControlClient::Attach(const Welcome& welcome, UniqueFd claim) {
  if (claim_ && welcome.block != welcome_.block) {
    return Refuse(ESTALE,
                  "uroced was started anew and gave this process other queue pair numbers than "
                  "those in use: end the program and start it again");
  }
  claim_ = std::move(claim);
  welcome_ = welcome;
  ++attachments_;
  state_ = State::kAttached;
}

bool ControlClient::Take(MessageChannel::Incoming& out) {
  if (state_ != State::kAttached || !channel_readable_) return false;
  switch (channel_.Receive(out)) {
    case MessageChannel::Status::kNothing:
      channel_readable_ = false;
      if (channel_.broken()) Detach();
      return false;
    case MessageChannel::Status::kClosed:
      Detach();
      return false;
    case MessageChannel::Status::kOk:
      break;
  }
  if (IsForAnAttachedProcess(out.type)) return true;
  if (const auto refused = out.As<Refused>()) {
    Refuse(*refused);
  } else {
    Detach();
  }
  for (UniqueFd& fd : out.fds) fd.reset();
  return false;
}

void ControlClient::Detach() {
  Disconnect();
  state_ = State::kDetached;
  constexpr int64_t kSecond_ns = 1'000'000'000;
  const bool is_queue_full = connect_error_ == EAGAIN;
  const int64_t interval_ns = is_queue_full
                                  ? std::min(options_.retry_interval, kQueueRetryInterval).ns
                                  : options_.retry_interval.ns;
  const itimerspec once{{}, {interval_ns / kSecond_ns, interval_ns % kSecond_ns}};
  timerfd_settime(retry_timer_.get(), 0, &once, nullptr);
}

void ControlClient::Refuse(const Refused& refusal) {
  Disconnect();
  state_ = State::kRefused;
  refusal_ = refusal;
  refusal_.sentence.back() = '\0';
}

void ControlClient::Refuse(int error, const std::string& sentence) {
  Refused refusal{error, {}};
  sentence.copy(refusal.sentence.data(), refusal.sentence.size() - 1);
  Refuse(refusal);
}

void ControlClient::Disconnect() {
  // Not left to close(): a child between fork and exec may hold the descriptor open a little
  // longer.
  if (channel_.fd() >= 0) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, channel_.fd(), nullptr);
  channel_.Reset({});
  channel_readable_ = watches_room_ = false;
}

void ControlClient::Watch(int fd, Source source) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = static_cast<uint32_t>(source);
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
}

void ControlClient::ChannelWasWritten() {
  // A broken channel counts as readable: it may hold messages of uroced, and epoll does not report
  // every way to break.
  if (channel_.broken()) channel_readable_ = true;
  if (watches_room_ == channel_.wants_write()) return;
  watches_room_ = channel_.wants_write();
  epoll_event event{};
  event.events = watches_room_ ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.u32 = static_cast<uint32_t>(Source::kChannel);
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, channel_.fd(), &event);
}

void ControlClient::Abandon() {
  state_ = State::kDetached;
  retry_is_due_ = channel_readable_ = false;
  // Removes nothing from the epoll set, which is the parent's, too.
  epoll_.reset();
  retry_timer_.reset();
  channel_.Reset({});
  claim_.reset();
}

}  // namespace uroce::nic::control
