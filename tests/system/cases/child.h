// The second process of a test.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <cstddef>
#include <functional>

namespace uroce::verbs::testing {

// One end of a line between a test and its child. A child whose test is gone exits.
class Line {
 public:
  Line(int socket, bool is_childs) : socket_(socket), is_childs_(is_childs) {}

  template <class T>
  void Tell(const T& what) const {
    Send(&what, sizeof what);
  }
  template <class T>
  T Hear() const {
    T what{};
    Receive(&what, sizeof what);
    return what;
  }
  // Waits until the other end has called it too.
  void Meet() const {
    Tell('.');
    Hear<char>();
  }

 private:
  void Send(const void* bytes, size_t count) const;
  void Receive(void* bytes, size_t count) const;
  void OtherEndIsGone() const;

  int socket_;
  bool is_childs_;
};

// A forked process. It exits with status 0 if its expectations hold, and is killed with its object.
class Child {
 public:
  explicit Child(const std::function<void(const Line& line)>& body);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  const Line& line() const { return line_; }
  void Signal(int number) const;
  // Waits for the end. As a shell: 128 plus the signal that ended the process.
  int ExitStatus();

 private:
  int socket_ = -1;
  pid_t pid_ = -1;
  Line line_{-1, false};
};

// Runs `body` in a process of its own; returns its exit status as Child does.
int ExitStatusOf(const std::function<void()>& body);

}  // namespace uroce::verbs::testing
