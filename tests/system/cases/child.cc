#include "tests/system/cases/child.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace uroce::verbs::testing {

void Line::Send(const void* bytes, size_t count) const {
  if (send(socket_, bytes, count, MSG_NOSIGNAL) != static_cast<ssize_t>(count)) OtherEndIsGone();
}

void Line::Receive(void* bytes, size_t count) const {
  if (recv(socket_, bytes, count, MSG_WAITALL) != static_cast<ssize_t>(count)) OtherEndIsGone();
}

void Line::OtherEndIsGone() const {
  if (is_childs_) std::exit(1);
  FAIL() << "the child has ended";
}

Child::Child(const std::function<void(const Line& line)>& body) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    ADD_FAILURE() << "no socket pair";
    return;
  }
  pid_ = fork();
  if (pid_ == 0) {
    close(sockets[0]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    body(Line(sockets[1], true));
    std::exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  close(sockets[1]);
  socket_ = sockets[0];
  line_ = Line(socket_, false);
}

Child::~Child() {
  if (pid_ > 0) {
    Signal(SIGKILL);
    ExitStatus();
  }
  close(socket_);
}

void Child::Signal(int number) const { EXPECT_EQ(kill(pid_, number), 0); }

int Child::ExitStatus() {
  int status = 0;
  EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int ExitStatusOf(const std::function<void()>& body) {
  return Child([&](const Line&) { body(); }).ExitStatus();
}

}  // namespace uroce::verbs::testing
