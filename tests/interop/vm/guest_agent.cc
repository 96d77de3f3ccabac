// Runs programs in the virtual machine: each TCP connection runs one program.
//
//   guest_agent PORT
//
// A client first sends the program's arguments, each ended by a zero byte, then one zero byte more.
// After that both sides send messages: a byte for the kind, the length (4 bytes, most significant
// first), and that many bytes. To the agent: 'i' bytes for the program's standard input, 'e' its
// end. From the agent: 'o' output of the program, 'x' its exit status (one byte; 128 plus the
// signal if a signal ended it), which is the last message. When the client goes, the program is
// killed.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr int kExitUsage = 2;
constexpr int kExitNotFound = 127;
constexpr int kSignalled = 128;
constexpr size_t kMaxArgumentBytes = 64 * 1024;
constexpr size_t kMaxMessageBytes = 64 * 1024;

bool ReadAll(int fd, void* to, size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = read(fd, at, bytes);
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool WriteAll(int fd, const void* from, size_t bytes) {
  const auto* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t put = write(fd, at, bytes);
    if (put <= 0) return false;
    at += put;
    bytes -= static_cast<size_t>(put);
  }
  return true;
}

// Empty if the client does not send a command.
std::vector<std::string> ReadArguments(int client) {
  std::vector<std::string> arguments;
  std::string argument;
  for (size_t i = 0; i < kMaxArgumentBytes; ++i) {
    char byte;
    if (!ReadAll(client, &byte, 1)) return {};
    if (byte != '\0') {
      argument += byte;
    } else if (argument.empty()) {
      return arguments;
    } else {
      arguments.push_back(std::move(argument));
      argument.clear();
    }
  }
  return {};
}

bool SendMessage(int client, char kind, const void* bytes, size_t length) {
  std::string message(1, kind);
  const uint32_t length_on_wire = htonl(static_cast<uint32_t>(length));
  message.append(reinterpret_cast<const char*>(&length_on_wire), sizeof(length_on_wire));
  message.append(static_cast<const char*>(bytes), length);
  return WriteAll(client, message.data(), message.size());
}

[[noreturn]] void Execute(const std::vector<std::string>& arguments, int input, int output) {
  // The program gets a process group of its own, which is killed as a whole.
  setpgid(0, 0);
  signal(SIGPIPE, SIG_DFL);
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  std::fprintf(stderr, "guest_agent: cannot run %s: %s\n", argv[0], std::strerror(errno));
  _exit(kExitNotFound);
}

// A program and the pipes to it.
class Program {
 public:
  explicit Program(const std::vector<std::string>& arguments) {
    int input[2];
    int output[2];
    if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) Execute(arguments, input[0], output[1]);
    close(input[0]);
    close(output[1]);
    input_ = input[1];
    output_ = output[0];
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  int output() const { return output_; }
  void Write(const std::string& bytes) { WriteAll(input_, bytes.data(), bytes.size()); }
  void EndInput() {
    if (input_ >= 0) close(input_);
    input_ = -1;
  }
  void Kill() { kill(-pid_, SIGKILL); }
  uint8_t Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    return static_cast<uint8_t>(WIFEXITED(status) ? WEXITSTATUS(status)
                                                  : kSignalled + WTERMSIG(status));
  }

 private:
  pid_t pid_ = -1;
  int input_ = -1;
  int output_ = -1;
};

// Sends the last message and waits until the client is gone: closing a connection with unread bytes
// resets it, and the client would lose what it has not read.
void End(int client, uint8_t status) {
  SendMessage(client, 'x', &status, 1);
  shutdown(client, SHUT_WR);
  char ignored[64];
  while (read(client, ignored, sizeof(ignored)) > 0) {
  }
}

// Returns false when the client is gone.
bool TakeMessage(int client, Program* program) {
  char kind;
  uint32_t length_on_wire;
  if (!ReadAll(client, &kind, 1) || !ReadAll(client, &length_on_wire, 4)) return false;
  const uint32_t length = ntohl(length_on_wire);
  if (length > kMaxMessageBytes) return false;
  std::string bytes(length, '\0');
  if (!ReadAll(client, bytes.data(), length)) return false;
  if (kind == 'i') program->Write(bytes);
  if (kind == 'e') program->EndInput();
  return true;
}

void Serve(int client) {
  const std::vector<std::string> arguments = ReadArguments(client);
  if (arguments.empty()) return;
  Program program(arguments);
  pollfd watched[] = {{client, POLLIN, 0}, {program.output(), POLLIN, 0}};
  std::vector<char> printed(kMaxMessageBytes);
  while (true) {
    if (poll(watched, 2, -1) < 0) break;
    if (watched[0].revents != 0 && !TakeMessage(client, &program)) break;
    if (watched[1].revents == 0) continue;
    const ssize_t got = read(program.output(), printed.data(), printed.size());
    if (got <= 0) return End(client, program.Wait());
    if (!SendMessage(client, 'o', printed.data(), static_cast<size_t>(got))) break;
  }
  program.Kill();
  program.Wait();
}

int Listen(uint16_t port) {
  const int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener, SOMAXCONN) != 0) {
    std::perror("guest_agent");
    std::exit(EXIT_FAILURE);
  }
  return listener;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: guest_agent PORT\n");
    return kExitUsage;
  }
  signal(SIGPIPE, SIG_IGN);
  signal(SIGCHLD, SIG_IGN);  // The children that serve are reaped by the kernel.
  const int listener = Listen(static_cast<uint16_t>(std::atoi(argv[1])));
  std::puts("guest_agent: ready");
  std::fflush(stdout);
  while (true) {
    const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) continue;
    if (fork() == 0) {
      signal(SIGCHLD, SIG_DFL);
      close(listener);
      const int yes = 1;
      setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
      Serve(client);
      _exit(EXIT_SUCCESS);
    }
    close(client);
  }
}
