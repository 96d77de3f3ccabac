#include "tests/simulation/goodput.h"

#include <array>
#include <cstdio>
#include <vector>

#include "tests/simulation/link.h"
#include "transport/limits.h"

namespace uroce::transport::simulation {
namespace {

constexpr uint64_t kBytesPerUs = 12'500;  // 100 Gbit/s
constexpr uint32_t kMtuBytes = 4'096;
constexpr uint32_t kQueueDepth = 256;
constexpr uint8_t kTimeout = 14;  // 67 ms, perftest's default
// Frames per cell of the table.
constexpr uint64_t kFrames = 50'000;

struct Loss {
  uint32_t ppm;
  const char* name;
};
struct MessageSize {
  uint32_t bytes;
  const char* name;
};
constexpr std::array kLosses = {Loss{0, "none"}, Loss{100, "0.01%"}, Loss{1'000, "0.1%"},
                                Loss{10'000, "1%"}, Loss{50'000, "5%"}};
constexpr std::array kMessageSizes = {MessageSize{64, "64 B"}, MessageSize{4 << 10, "4 KiB"},
                                      MessageSize{64 << 10, "64 KiB"},
                                      MessageSize{1 << 20, "1 MiB"}};
constexpr std::array kRoundTrips = {Microseconds(2), Microseconds(20), Microseconds(200)};

struct Goodput {
  uint64_t mbits_per_second;  // 0: the connection broke
  uint64_t useful_percent;    // of the packets with payload that were sent
};

// One cell: a client that keeps its send queue full of messages of one kind.
class Measurement {
 public:
  Measurement(SendOpcode opcode, uint32_t message_bytes, Duration round_trip, uint32_t loss_ppm);

  Goodput Run();

 private:
  static LinkOptions Options(uint32_t message_bytes, Duration round_trip, uint32_t loss_ppm);
  void OnActivity(Link::Host& host);

  const SendOpcode opcode_;
  const uint32_t message_bytes_;
  Link link_;
  uint64_t payload_frames_ = 0;
  bool failed_ = false;
  // When the last message completed:
  uint64_t completed_ = 0;
  uint64_t payload_frames_then_ = 0;
  Time then_;
};

Measurement::Measurement(SendOpcode opcode, uint32_t message_bytes, Duration round_trip,
                         uint32_t loss_ppm)
    : opcode_(opcode),
      message_bytes_(message_bytes),
      link_(Options(message_bytes, round_trip, loss_ppm),
            {.sent =
                 [this](const Link::Host& from, std::span<const uint8_t>) {
                   payload_frames_ += (from.index == 1) == (opcode_ == SendOpcode::kRdmaRead);
                 },
             .delivered = {},
             .impaired = {},
             .activity = [this](Link::Host& host) { OnActivity(host); }}) {}

LinkOptions Measurement::Options(uint32_t message_bytes, Duration round_trip, uint32_t loss_ppm) {
  LinkOptions options;
  options.mtu = Mtu::k4096;
  options.timeout = kTimeout;
  options.probes = true;
  options.congestion = Congestion::kModel;
  options.reorder_packets = kReorderPackets;
  options.queue_depth = kQueueDepth;
  options.memory_bytes = message_bytes;
  options.impairments.latency = {round_trip.ns / 2};
  options.impairments.bytes_per_us = kBytesPerUs;
  options.impairments.loss_ppm = loss_ppm;
  return options;
}

// Posts one message for each completed one.
void Measurement::OnActivity(Link::Host& host) {
  std::array<Completion, 64> completions;
  const size_t count = host.cq->Poll(completions);
  for (size_t i = 0; i < count; ++i) {
    failed_ |= completions[i].status != CompletionStatus::kSuccess;
    failed_ |= link_.Post(opcode_, 0, message_bytes_) != Status::kOk;
  }
  if (count == 0 || failed_) return;
  completed_ += count;
  payload_frames_then_ = payload_frames_;
  then_ = link_.now();
  link_.UpdateAfterEvent(host);
}

Goodput Measurement::Run() {
  for (uint32_t i = 0; i < kQueueDepth; ++i) {
    failed_ |= link_.Post(opcode_, 0, message_bytes_) != Status::kOk;
  }
  link_.UpdateAfterEvent(link_.client());
  while (payload_frames_ < kFrames && !failed_ && link_.RunOne()) {
  }
  if (failed_ || completed_ == 0) return {0, 0};
  const uint64_t bits = completed_ * message_bytes_ * 8;
  const uint64_t packets = completed_ * ((message_bytes_ + kMtuBytes - 1) / kMtuBytes);
  return {bits * 1'000 / static_cast<uint64_t>(then_.ns), packets * 100 / payload_frames_then_};
}

template <class... Values>
__attribute__((format(printf, 2, 0))) void Append(std::string& text, const char* format,
                                                  Values... values) {
  std::array<char, 128> buffer;
  std::snprintf(buffer.data(), buffer.size(), format, values...);
  text += buffer.data();
}

void AppendBlock(std::string& table, SendOpcode opcode, Duration round_trip) {
  Append(table, "\n%s, round trip %lld us\n\n  loss ",
         opcode == SendOpcode::kRdmaRead ? "READ" : "WRITE",
         static_cast<long long>(round_trip.ns / 1'000));
  for (const MessageSize& size : kMessageSizes) Append(table, "%15s", size.name);
  table += "\n";
  for (const Loss& loss : kLosses) {
    Append(table, "  %-5s", loss.name);
    for (const MessageSize& size : kMessageSizes) {
      const Goodput goodput = Measurement(opcode, size.bytes, round_trip, loss.ppm).Run();
      const auto mbits = static_cast<unsigned long long>(goodput.mbits_per_second);
      const auto percent = static_cast<unsigned long long>(goodput.useful_percent);
      Append(table, "%6llu.%03llu %3llu%%", mbits / 1'000, mbits % 1'000, percent);
    }
    table += "\n";
  }
}

}  // namespace

std::string GoodputTable() {
  std::string table =
      "Goodput of one reliable connection in Gbit/s, and how much of the payload that was sent "
      "was\n"
      "of use. A virtual line of 100 Gbit/s, path MTU 4096, 256 messages posted, ACK timeout 67 "
      "ms,\n"
      "up to 16 READs outstanding; each packet is lost with the same chance, ACKs too.\n";
  for (const SendOpcode opcode : {SendOpcode::kRdmaWrite, SendOpcode::kRdmaRead}) {
    for (const Duration round_trip : kRoundTrips) AppendBlock(table, opcode, round_trip);
  }
  return table;
}

}  // namespace uroce::transport::simulation
