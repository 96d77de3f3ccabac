#include "tests/system/hostile/attacker.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "dpdk_nic/engine/published_state.h"

namespace uroce::nic {

using control::ControlClient;

Attacker::Attacker(const std::string& fabric)
    : fabric_(fabric), published_state_(dup(PublishedState::Create()->fd())) {
  AttachAgain();
}

void Attacker::AttachAgain() {
  if (client_ != nullptr && client_->state() == ControlClient::State::kAttached) return;
  client_ = std::make_unique<ControlClient>(
      ControlClient::Options{.fabric = fabric_, .published_state_fd = published_state_.get()});
  offers_received_ = 0;
  while (client_->state() != ControlClient::State::kAttached) {
    if (client_->state() == ControlClient::State::kRefused) _exit(1);
    client_->Serve();
    pollfd poll_fd{client_->wait_fd(), POLLIN, 0};
    poll(&poll_fd, 1, 100);
  }
}

bool Attacker::Offer(control::Block to) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return false;
  const UniqueFd theirs(ends[1]);
  socket_.reset(ends[0]);
  memory_ = RingMemory::Create();
  if (memory_ == nullptr) return false;
  const std::array<int, 2> fds = {memory_->fd(), theirs.get()};
  return client_->Send(control::LinkRequest{to, offers_received_}, fds);
}

void Attacker::Listen() {
  client_->Serve();
  control::MessageChannel::Incoming message;
  while (client_->Take(message)) {
    if (const auto answer = message.As<control::LinkAnswer>()) {
      accepted_ += answer->error == 0 ? 1 : 0;
      limited_ += answer->error == EAGAIN ? 1 : 0;
    } else if (message.As<control::LinkOffer>()) {
      ++offers_received_;
    }
    for (UniqueFd& fd : message.fds) fd.reset();
  }
}

bool Attacker::IsLinkClosed() const {
  pollfd poll_fd{socket_.get(), POLLIN, 0};
  return poll(&poll_fd, 1, 0) != 0 && (poll_fd.revents & POLLHUP) != 0;
}

}  // namespace uroce::nic
