// One member of an all-to-all. A test tells each member the addresses of the others. Every pair of
// members is joined by lanes, on which both verify every byte (lane.h).
//
//   usage: mesh NUMBER [GID-INDEX]
//
//   command                                       answer
//   open PEER LANES                               addresses HEX
//   connect PEER HEX TIMEOUT RETRY-COUNT          ok
//   count PEER                                    count TURNS BYTES FAILED-LANES
//   probe PEER                                    ok
//   close PEER                                    ok
//   pause                                         paused            (once nothing is in flight)
//   resume                                        ok
//
// Between answers it prints "failed PEER LANE STATUS" when a lane fails. Any other error ends it
// with "wrong SENTENCE" and exit status 1. It also ends with its input. Uses nothing but
// libibverbs.

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>

#include "tests/system/mesh/member.h"

namespace mesh {
namespace {

// Passes between two checks of the input, each of which is a system call.
constexpr int kPassesPerLook = 256;

std::string ToHex(const std::vector<LaneAddress>& addresses) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  const auto* bytes = reinterpret_cast<const uint8_t*>(addresses.data());
  for (size_t i = 0; i < addresses.size() * sizeof(LaneAddress); ++i) {
    hex += kDigits[bytes[i] >> 4];
    hex += kDigits[bytes[i] & 15];
  }
  return hex;
}

std::vector<LaneAddress> FromHex(const std::string& hex) {
  constexpr size_t kDigitsEach = 2 * sizeof(LaneAddress);
  if (hex.size() % kDigitsEach != 0) throw std::runtime_error("those are no addresses");
  std::vector<LaneAddress> addresses(hex.size() / kDigitsEach);
  auto* bytes = reinterpret_cast<uint8_t*>(addresses.data());
  for (size_t i = 0; i < hex.size() / 2; ++i) {
    bytes[i] = static_cast<uint8_t>(std::stoul(hex.substr(2 * i, 2), nullptr, 16));
  }
  return addresses;
}

template <typename T>
T Take(std::istream& words) {
  T value;
  if (!(words >> value)) throw std::runtime_error("an argument is missing or malformed");
  return value;
}

void Answer(const std::string& line) { std::cout << line << std::endl; }

// The lines of standard input, without waiting for them unless asked to.
class Input {
 public:
  bool is_over() const { return is_over_; }

  std::optional<std::string> NextLine(int timeout_ms) {
    if (unread_.find('\n') == std::string::npos) Read(timeout_ms);
    const size_t end = unread_.find('\n');
    if (end == std::string::npos) return std::nullopt;
    std::string line = unread_.substr(0, end);
    unread_.erase(0, end + 1);
    return line;
  }

 private:
  void Read(int timeout_ms) {
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (poll(&input, 1, timeout_ms) <= 0) return;
    char bytes[65'536];
    const ssize_t length = read(STDIN_FILENO, bytes, sizeof(bytes));
    if (length < 0 && errno != EINTR) system_test::Fail("read", errno);
    if (length == 0) is_over_ = true;
    if (length > 0) unread_.append(bytes, static_cast<size_t>(length));
  }

  std::string unread_;
  bool is_over_ = false;
};

class Mesh {
 public:
  Mesh(uint32_t number, int gid_index) : member_(number, gid_index) {}

  void Run() {
    for (int pass = 0; !input_.is_over(); ++pass) {
      for (const std::string& news : member_.RunOnce()) Answer(news);
      if (is_pausing_ && member_.is_quiet()) {
        is_pausing_ = false;
        Answer("paused");
      }
      if (member_.is_busy() && pass % kPassesPerLook != 0) continue;
      const int timeout_ms = member_.is_busy() ? 0 : -1;
      if (const auto line = input_.NextLine(timeout_ms)) Obey(*line);
    }
  }

 private:
  void Obey(const std::string& line) {
    std::istringstream words(line);
    const auto command = Take<std::string>(words);
    if (command == "pause" || command == "resume") return SetMoving(command == "resume");
    const auto peer = Take<uint32_t>(words);
    if (command == "open") {
      Answer("addresses " + ToHex(member_.Open(peer, Take<uint32_t>(words))));
    } else if (command == "count") {
      const Member::Count count = member_.CountOf(peer);
      Answer("count " + std::to_string(count.turns) + ' ' + std::to_string(count.bytes) + ' ' +
             std::to_string(count.failed_lanes));
    } else {
      Change(command, peer, words);
      Answer("ok");
    }
  }

  void Change(const std::string& command, uint32_t peer, std::istream& words) {
    if (command == "connect") {
      const auto addresses = FromHex(Take<std::string>(words));
      const auto timeout = static_cast<uint8_t>(Take<unsigned>(words));
      const auto retry_count = static_cast<uint8_t>(Take<unsigned>(words));
      member_.Connect(peer, addresses, timeout, retry_count);
    } else if (command == "probe") {
      member_.Probe(peer);
    } else if (command == "close") {
      member_.Close(peer);
    } else {
      throw std::runtime_error("there is no command '" + command + "'");
    }
  }

  void SetMoving(bool is_moving) {
    member_.SetMoving(is_moving);
    if (is_moving) return Answer("ok");
    is_pausing_ = true;
  }

  Input input_;
  Member member_;
  bool is_pausing_ = false;
};

}  // namespace
}  // namespace mesh

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: mesh NUMBER [GID-INDEX]\n");
    return 2;
  }
  try {
    mesh::Mesh mesh(static_cast<uint32_t>(std::atoi(argv[1])), argc > 2 ? std::atoi(argv[2]) : 1);
    mesh.Run();
  } catch (const std::exception& error) {
    std::cout << "wrong " << error.what() << std::endl;
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
