#include "tests/system/network/emulator.h"

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "transport/wire/ethernet.h"

namespace uroce::network {
namespace {

constexpr size_t kReceiver = 0;
constexpr size_t kLongestFrame = 16 * 1024;
constexpr int kFramesPerTurn = 64;

Time Now() {
  return {std::chrono::duration_cast<std::chrono::nanoseconds>(
              std::chrono::steady_clock::now().time_since_epoch())
              .count()};
}

nic::UniqueFd OpenTap(const std::string& name) {
  nic::UniqueFd fd(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  ifreq request{};
  name.copy(request.ifr_name, sizeof request.ifr_name - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (fd.get() < 0 || ioctl(fd.get(), TUNSETIFF, &request) != 0) {
    throw std::system_error(errno, std::generic_category(), name);
  }
  return fd;
}

uint64_t Address(const uint8_t* bytes) {
  uint64_t address = 0;
  std::memcpy(&address, bytes, sizeof(transport::MacAddress));
  return address;
}

bool IsForAll(std::span<const uint8_t> frame) { return (frame[0] & 1) != 0; }

double TakeNumber(std::istream& words) {
  double number;
  if (!(words >> number)) throw std::runtime_error("a number is missing");
  return number;
}

}  // namespace

Emulator::Emulator(std::span<const std::string> taps) : reset_at_(Now()) {
  for (const std::string& name : taps) taps_.push_back(OpenTap(name));
}

void Emulator::Run(int commands_fd, std::ostream& answers) {
  std::vector<pollfd> polled;
  for (const nic::UniqueFd& tap : taps_) polled.push_back({tap.get(), POLLIN, 0});
  polled.push_back({commands_fd, POLLIN, 0});
  std::string line;
  while (true) {
    DeliverDue();
    std::optional<timespec> wait;
    if (!in_flight_.empty()) {
      const Duration left = std::max(in_flight_.top().arrival - Now(), Duration{});
      wait = timespec{left.ns / 1'000'000'000, left.ns % 1'000'000'000};
    }
    if (ppoll(polled.data(), polled.size(), wait ? &*wait : nullptr, nullptr) < 0 &&
        errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "ppoll");
    }
    for (size_t port = 0; port < taps_.size(); ++port) {
      if ((polled[port].revents & POLLIN) != 0) Receive(port);
    }
    if (polled.back().revents == 0) continue;
    char bytes[1024];
    const ssize_t count = read(commands_fd, bytes, sizeof bytes);
    if (count <= 0) return;
    for (const char byte : std::span(bytes).first(static_cast<size_t>(count))) {
      if (byte != '\n') {
        line += byte;
        continue;
      }
      Obey(line, answers);
      line.clear();
    }
  }
}

void Emulator::Obey(const std::string& line, std::ostream& answers) {
  std::istringstream words(line);
  std::string command;
  words >> command;
  try {
    if (command == "stats") {
      answers << "{\"seconds\":" << static_cast<double>((Now() - reset_at_).ns) / 1e9
              << ",\"forward\":";
      counters_[kForward].Print(answers);
      answers << ",\"backward\":";
      counters_[kBackward].Print(answers);
      answers << "}" << std::endl;
      return;
    }
    if (command == "set") {
      Set(words);
    } else if (command == "down") {
      const Duration duration{static_cast<int64_t>(TakeNumber(words) * 1e9)};
      for (Bottleneck& path : paths_) path.TakeDown(Now() + duration);
    } else if (command == "reset") {
      counters_ = {};
      reset_at_ = Now();
    } else {
      throw std::runtime_error("'" + command + "' is no command");
    }
    answers << "ok" << std::endl;
  } catch (const std::runtime_error& error) {
    answers << "wrong " << error.what() << std::endl;
  }
}

void Emulator::Set(std::istream& words) {
  size_t first = kForward;
  size_t last = kBackward;
  std::string key;
  while (words >> key) {
    if (key == "forward") {
      first = last = kForward;
    } else if (key == "backward") {
      first = last = kBackward;
    } else {
      const double value = TakeNumber(words);
      for (size_t i = first; i <= last; ++i) {
        if (!paths_[i].settings().Set(key, value)) {
          throw std::runtime_error("'" + key + "' is no property of a path");
        }
      }
    }
  }
}

// A host that takes no frame loses it, as a NIC without a free buffer does.
void Emulator::DeliverDue() {
  while (!in_flight_.empty() && in_flight_.top().arrival <= Now()) {
    // top() is constant only because its order must not change.
    auto& arrived = const_cast<InFlight&>(in_flight_.top());
    std::ignore = write(taps_[arrived.port].get(), arrived.frame.data(), arrived.frame.size());
    free_frames_.push_back(std::move(arrived.frame));
    in_flight_.pop();
  }
}

void Emulator::Receive(size_t port) {
  std::array<uint8_t, kLongestFrame> frame;
  for (int i = 0; i < kFramesPerTurn; ++i) {
    const ssize_t bytes = read(taps_[port].get(), frame.data(), frame.size());
    if (bytes < static_cast<ssize_t>(transport::EthernetHeader::kBytes)) return;
    Forward(port, std::span(frame).first(static_cast<size_t>(bytes)));
  }
}

void Emulator::Forward(size_t from, std::span<const uint8_t> frame) {
  ports_[Address(&frame[transport::EthernetHeader::kSourceOffset])] = from;
  if (from != kReceiver) return Carry(kForward, from, kReceiver, frame);
  if (IsForAll(frame)) {
    for (size_t to = kReceiver + 1; to < taps_.size(); ++to) Carry(kBackward, to, to, frame);
    return;
  }
  const auto found = ports_.find(Address(frame.data()));
  if (found == ports_.end() || found->second == kReceiver) return;
  Carry(kBackward, found->second, found->second, frame);
}

void Emulator::Carry(Direction direction, size_t host, size_t to, std::span<const uint8_t> frame) {
  const Time now = Now();
  Bottleneck& path = paths_[direction];
  const uint64_t backlog = path.BacklogBytes(now);
  const auto [fate, arrival, wants_mark] = path.Send(now, frame.size());
  bool is_marked = false;
  if (fate == Fate::kDelivered) {
    std::vector<uint8_t> copy = Copy(frame);
    is_marked = wants_mark && Mark(copy);
    in_flight_.push({arrival, frames_taken_++, to, std::move(copy)});
  }
  counters_[direction].Count(host, KindOf(frame), frame.size(), fate, is_marked, backlog);
}

std::vector<uint8_t> Emulator::Copy(std::span<const uint8_t> frame) {
  std::vector<uint8_t> copy;
  if (!free_frames_.empty()) {
    copy = std::move(free_frames_.back());
    free_frames_.pop_back();
  }
  copy.assign(frame.begin(), frame.end());
  return copy;
}

}  // namespace uroce::network
