#include "tests/dpdk_nic/port/dpdk/dpdk_test_support.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace uroce::nic {
namespace {

constexpr char kLibrary[] = "dpdk_nic/port/dpdk/liburoce-dpdk.so";  // in the test's runfiles
constexpr char kPeerProgram[] = "tests/dpdk_nic/port/dpdk/dpdk_peer";
// Test frames resemble RoCEv2 only in their UDP port. The IPv4 header's checksum is wrong, so that
// a kernel drops them.
constexpr uint8_t kHeader[] = {0xff, 0xff, 0xff,      0xff,        0xff, 0xff, 2, 0,
                               0,    0,    0,         1,           0x08, 0x00,  // Ethernet
                               0x45, 0,    0,         0,           0,    0,    0, 0,
                               64,   17,   0,         0,  // IPv4, UDP
                               192,  0,    2,         1,           192,  0,    2, 2,
                               0xc0, 0,    4791 >> 8, 4791 & 0xff, 0,    0,    0, 0};
constexpr size_t kNumberOffset = sizeof kHeader;
constexpr size_t kPatternOffset = kNumberOffset + sizeof(uint64_t);

bool IsTestFrame(std::span<const uint8_t> frame) {
  return frame.size() >= kPatternOffset && memcmp(frame.data(), kHeader, sizeof kHeader) == 0;
}

uint8_t PatternByte(uint64_t number, size_t position) {
  return static_cast<uint8_t>(number * 0x9e37'79b9'7f4a'7c15 >> 56 ^ position * 31);
}

bool PatternIsRight(std::span<const uint8_t> frame, uint64_t number) {
  for (size_t i = kPatternOffset; i < frame.size(); ++i) {
    if (frame[i] != PatternByte(number, i)) return false;
  }
  return true;
}

}  // namespace

OpenDpdkPortFunction TestedOpenFunction() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    abort();
  }
  return reinterpret_cast<OpenDpdkPortFunction>(dlsym(library, kOpenDpdkPortSymbol));
}

OpenedPort OpenDpdkPort(const std::string& devargs, uint32_t mtu_bytes, const transport::Gid& ip) {
  OpenedPort opened;
  OpenDpdkPortRequest request;
  request.devargs = devargs.c_str();
  request.mtu_bytes = mtu_bytes;
  request.addresses[0] = {.ip = ip};
  request.address_count = ip.IsZero() ? 0 : 1;
  request.mac = MacAddressFor(ip);
  OpenDpdkPortResult result;
  if (!TestedOpenFunction()(&request, &result)) {
    opened.error = result.error;
    return opened;
  }
  opened.port.reset(result.port);
  opened.link_layer.reset(result.link_layer);
  return opened;
}

Peer::Peer(const std::string& devargs, const Options& options) : pid_(fork()) {
  if (pid_ != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!options.network_namespace.empty()) {
    const int fd = open(options.network_namespace.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) _exit(126);
  }
  const std::string frames = std::to_string(options.frames);
  execl(kPeerProgram, kPeerProgram, devargs.c_str(),
        options.frames > 0 ? frames.c_str() : static_cast<char*>(nullptr), nullptr);
  _exit(127);
}

void Peer::Kill() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void ReflectOnce(PacketPort* port) {
  for (auto out = port->AcquireTransmit(transport::Route::kWire); !out.empty();
       out = port->AcquireTransmit(transport::Route::kWire)) {
    const auto frame = port->Receive().bytes;
    if (frame.empty()) break;
    const bool ours = IsTestFrame(frame);
    if (ours) {
      std::copy(frame.begin(), frame.end(), out.begin());
      port->CommitTransmit(frame.size());
    }
    port->ReleaseReceived();
  }
  port->Flush();
}

void Traffic::Send(uint64_t limit) {
  for (int i = 0; i < 32 && sent_ < limit; ++i) {
    const std::span<uint8_t> frame = port_->AcquireTransmit(transport::Route::kWire);
    if (frame.empty()) break;
    const size_t bytes = min_bytes_ + sent_ * 7 % (max_bytes_ - min_bytes_ + 1);
    memcpy(frame.data(), kHeader, sizeof kHeader);
    memcpy(&frame[kNumberOffset], &sent_, sizeof sent_);
    for (size_t j = kPatternOffset; j < bytes; ++j) frame[j] = PatternByte(sent_, j);
    port_->CommitTransmit(bytes);
    ++sent_;
  }
  port_->Flush();
}

void Traffic::Receive() {
  for (auto frame = port_->Receive().bytes; !frame.empty(); frame = port_->Receive().bytes) {
    if (IsTestFrame(frame)) {
      uint64_t number = 0;
      memcpy(&number, &frame[kNumberOffset], sizeof number);
      if (received_ == 0) first_number_ = number;
      if (received_ > 0 && number <= last_number_) ++out_of_order_;
      if (!PatternIsRight(frame, number)) ++corrupt_;
      last_number_ = number;
      ++received_;
    }
    port_->ReleaseReceived();
  }
}

bool PollUntil(const std::function<bool()>& step, std::chrono::seconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!step()) {
    if (std::chrono::steady_clock::now() > end) return false;
    sched_yield();
  }
  return true;
}

bool AllComeBack(PacketPort* port, uint64_t frames) {
  Traffic traffic(port, 60, 4'224);
  const bool all = PollUntil([&] {
    traffic.Send(frames);
    traffic.Receive();
    return traffic.received() == frames;
  });
  return all && traffic.corrupt() == 0 && traffic.out_of_order() == 0;
}

std::string UniqueSocketPath() {
  static int next = 0;
  const char* directory = getenv("TEST_TMPDIR");
  std::string path = std::string(directory != nullptr ? directory : "/tmp") + "/memif";
  if (path.size() > 80) path = "/tmp/uroce-test";
  return path + "-" + std::to_string(getpid()) + "-" + std::to_string(next++);
}

}  // namespace uroce::nic
