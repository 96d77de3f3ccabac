// Measures what a driver of DPDK carries between two hosts with nothing above it: the ceiling of a
// port over the same driver. Both ends run this program; each counts the frames that it receives.
//
//   dpdk_frames VDEV receive
//   dpdk_frames VDEV send SECONDS BYTES MAC FROM TO     frames of BYTES to the station MAC, RoCEv2
//                                                       from one IPv4 address to the other, because
//                                                       the receiver's kernel looks at them, too
//   dpdk_frames VDEV answer SECONDS BYTES MAC FROM TO   the same, as soon as a frame arrives
//
// Prints "ready" when it can receive and, a second after the last frame arrived or was sent, how
// many million frames arrived per second. Then it waits for the end of its standard input, because
// memif's driver crashes if its peer leaves while it polls.

#include <arpa/inet.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_mbuf.h>
#include <rte_udp.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace uroce::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kExitUsage = 2;
constexpr uint16_t kPort = 0;
constexpr uint16_t kBurstFrames = 32;
constexpr uint16_t kDescriptors = 1024;
constexpr uint16_t kRoomBytes = 5'248;  // the longest slot of the driver's ring, and headroom
constexpr size_t kMaxFrameBytes = 5'120;
constexpr uint16_t kXdpRoomBytes = 3'584;  // an mbuf of AF_XDP has to fit in a page
constexpr unsigned kPoolFrames = 4'095;
constexpr uint16_t kRoceUdpPort = 4791;
constexpr uint16_t kSourceUdpPort = 0xc000;
constexpr int kPassesBetweenLooks = 16;  // at the clock
constexpr std::chrono::seconds kSilence{1};

void Check(bool is_done, const char* what) {
  if (!is_done) throw std::runtime_error(std::string("cannot ") + what);
}

// On the cpu that the calling process was given.
void StartEal(const std::string& vdev) {
  std::vector<std::string> words = {
      "dpdk_frames",
      "--no-huge",
      "-m",
      "256",
      "--no-pci",
      "--no-telemetry",
      "--no-shconf",
      "--log-level=3",
      "--file-prefix=uroce-bench-" + std::to_string(getpid()),
      "--lcores=0@" + std::to_string(sched_getcpu()),
      "--vdev=" + vdev,
  };
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  Check(rte_eal_init(static_cast<int>(arguments.size()), arguments.data()) >= 0, "start DPDK");
}

rte_mempool* StartDevice(bool is_xdp) {
  rte_mempool* const pool = rte_pktmbuf_pool_create(
      "frames", kPoolFrames, 0, 0, is_xdp ? kXdpRoomBytes : kRoomBytes, SOCKET_ID_ANY);
  Check(pool != nullptr, "make a pool of frames");
  rte_eth_conf config{};
  uint16_t receive = kDescriptors;
  uint16_t transmit = kDescriptors;
  Check(rte_eth_dev_configure(kPort, 1, 1, &config) == 0 &&
            rte_eth_dev_adjust_nb_rx_tx_desc(kPort, &receive, &transmit) == 0 &&
            rte_eth_rx_queue_setup(kPort, 0, receive, SOCKET_ID_ANY, nullptr, pool) == 0 &&
            rte_eth_tx_queue_setup(kPort, 0, transmit, SOCKET_ID_ANY, nullptr) == 0 &&
            rte_eth_dev_start(kPort) == 0,
        "start the device");
  return pool;
}

struct Stream {
  std::chrono::duration<double> duration;
  std::vector<uint8_t> frame;
};

struct Headers {
  rte_ether_hdr ethernet;
  rte_ipv4_hdr ip;
  rte_udp_hdr udp;
};

Stream ReadStream(char** arguments) {
  Stream stream{std::chrono::duration<double>(std::atof(arguments[0])),
                std::vector<uint8_t>(static_cast<size_t>(std::atoi(arguments[1])))};
  const size_t bytes = stream.frame.size();
  Check(bytes >= sizeof(Headers) && bytes <= kMaxFrameBytes, "send such frames");
  Headers headers{};
  Check(rte_ether_unformat_addr(arguments[2], &headers.ethernet.dst_addr) == 0,
        "read the MAC address");
  rte_eth_macaddr_get(kPort, &headers.ethernet.src_addr);
  headers.ethernet.ether_type = htons(RTE_ETHER_TYPE_IPV4);
  headers.ip.version_ihl = RTE_IPV4_VHL_DEF;
  headers.ip.total_length = htons(static_cast<uint16_t>(bytes - sizeof headers.ethernet));
  headers.ip.time_to_live = 64;
  headers.ip.next_proto_id = IPPROTO_UDP;
  Check(inet_pton(AF_INET, arguments[3], &headers.ip.src_addr) == 1 &&
            inet_pton(AF_INET, arguments[4], &headers.ip.dst_addr) == 1,
        "read the IPv4 addresses");
  headers.ip.hdr_checksum = rte_ipv4_cksum(&headers.ip);
  headers.udp.src_port = htons(kSourceUdpPort);
  headers.udp.dst_port = htons(kRoceUdpPort);
  headers.udp.dgram_len =
      htons(static_cast<uint16_t>(bytes - sizeof headers.ethernet - sizeof headers.ip));
  std::memcpy(stream.frame.data(), &headers, sizeof headers);
  return stream;
}

// Sends bursts, and keeps the frames that the device has not taken yet.
class Sender {
 public:
  Sender(rte_mempool* pool, const std::vector<uint8_t>& frame) : pool_(pool), frame_(frame) {}

  void SendBurst() {
    if (count_ == 0) Fill();
    const uint16_t taken =
        rte_eth_tx_burst(kPort, 0, burst_.data() + kBurstFrames - count_, count_);
    count_ = static_cast<uint16_t>(count_ - taken);
  }

 private:
  void Fill() {
    if (rte_pktmbuf_alloc_bulk(pool_, burst_.data(), kBurstFrames) != 0) return;
    for (rte_mbuf* mbuf : burst_) {
      std::memcpy(rte_pktmbuf_append(mbuf, static_cast<uint16_t>(frame_.size())), frame_.data(),
                  frame_.size());
    }
    count_ = kBurstFrames;
  }

  rte_mempool* pool_;
  const std::vector<uint8_t>& frame_;
  std::array<rte_mbuf*, kBurstFrames> burst_{};
  uint16_t count_ = 0;
};

// Counts from the first frame of a stream to the last. Frames between the kernels do not count.
class Receiver {
 public:
  void ReceiveBurst() {
    std::array<rte_mbuf*, kBurstFrames> burst;
    const uint16_t received = rte_eth_rx_burst(kPort, 0, burst.data(), kBurstFrames);
    const auto count = std::count_if(burst.begin(), burst.begin() + received, IsOfStream);
    rte_pktmbuf_free_bulk(burst.data(), received);
    if (count == 0) return;
    last_ = Clock::now();
    if (frames_ == 0) first_ = last_;
    frames_ += static_cast<uint64_t>(count);
  }

  bool HasFrames() const { return frames_ > 0; }
  Clock::time_point last() const { return last_; }
  double MillionsASecond() const {
    const std::chrono::duration<double> elapsed = last_ - first_;
    return elapsed.count() > 0 ? static_cast<double>(frames_) / elapsed.count() / 1e6 : 0;
  }

 private:
  static bool IsOfStream(const rte_mbuf* frame) {
    const auto* const headers = rte_pktmbuf_mtod(frame, const Headers*);
    return frame->data_len >= sizeof(Headers) &&
           headers->ethernet.ether_type == htons(RTE_ETHER_TYPE_IPV4) &&
           headers->ip.next_proto_id == IPPROTO_UDP && headers->udp.dst_port == htons(kRoceUdpPort);
  }

  uint64_t frames_ = 0;
  Clock::time_point first_;
  Clock::time_point last_;
};

void SendStream(const Stream& stream, rte_mempool* pool, Receiver& receiver) {
  Sender sender(pool, stream.frame);
  const Clock::time_point start = Clock::now();
  while (Clock::now() - start < stream.duration) {
    for (int pass = 0; pass < kPassesBetweenLooks; ++pass) {
      sender.SendBurst();
      receiver.ReceiveBurst();
    }
  }
}

void Run(const std::string& vdev, bool begins, char** stream_arguments) {
  StartEal(vdev);
  rte_mempool* const pool = StartDevice(vdev.starts_with("net_af_xdp"));
  std::optional<Stream> stream;
  if (stream_arguments != nullptr) stream = ReadStream(stream_arguments);
  std::puts("ready");
  std::fflush(stdout);
  Receiver receiver;
  while (!begins && !receiver.HasFrames()) receiver.ReceiveBurst();
  if (stream) SendStream(*stream, pool, receiver);
  Clock::time_point last_active = Clock::now();
  while (Clock::now() - last_active < kSilence) {
    receiver.ReceiveBurst();
    last_active = std::max(last_active, receiver.last());
  }
  std::printf("%.4f\n", receiver.MillionsASecond());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  rte_eth_dev_stop(kPort);
  rte_eth_dev_close(kPort);
}

}  // namespace
}  // namespace uroce::bench

int main(int argc, char** argv) {
  constexpr int kWithoutStream = 3;
  constexpr int kWithStream = 8;
  const std::string mode = argc > 2 ? argv[2] : "";
  const bool sends = mode == "send" || mode == "answer";
  if (argc != (sends ? kWithStream : kWithoutStream) || (!sends && mode != "receive")) {
    std::fprintf(stderr,
                 "usage: dpdk_frames VDEV receive|send|answer [SECONDS BYTES MAC FROM TO]\n");
    return uroce::bench::kExitUsage;
  }
  try {
    uroce::bench::Run(argv[1], mode == "send", sends ? argv + kWithoutStream : nullptr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dpdk_frames: %s\n", error.what());
    return 1;
  }
  return 0;
}
