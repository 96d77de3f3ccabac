// The cost of the wire format per packet: CRC, copy and CRC, building and parsing a frame.
#include <benchmark/benchmark.h>

#include <array>
#include <string>
#include <vector>

#include "transport/wire/crc32.h"
#include "transport/wire/crc32_kernels.h"
#include "transport/wire/frame_builder.h"
#include "transport/wire/frame_parser.h"

namespace uroce::transport {
namespace {

constexpr MacAddress kMac{0x02, 0, 0, 0, 0, 1};

FrameBuilder BuilderFor(bool ipv6) {
  AddressVector address;
  address.destination_gid = ipv6 ? Gid::LinkLocal(kMac) : Gid::FromIpv4({10, 0, 0, 2});
  const Gid source = ipv6 ? Gid::LinkLocal(kMac) : Gid::FromIpv4({10, 0, 0, 1});
  return FrameBuilder(kMac, source, address, 0xc001);
}

TransportHeaders HeadersOf(uint8_t bth_opcode) {
  TransportHeaders headers;
  headers.opcode = *ParseOpcode(bth_opcode);
  headers.destination_qpn = Qpn{0x123};
  headers.reth = {.virtual_address = 0x1000, .rkey = RKey{0x100}, .dma_length = 4096};
  return headers;
}

constexpr uint8_t kSendOnly = 0x04;
constexpr uint8_t kWriteMiddle = 0x07;
constexpr uint8_t kWriteOnly = 0x0a;
constexpr uint8_t kAcknowledge = 0x11;

void CrcUpdate(benchmark::State& state, const Crc32Kernel* kernel) {
  if (kernel == nullptr) return state.SkipWithError("not on this processor");
  std::vector<uint8_t> data(static_cast<size_t>(state.range(0)), 1);
  for (auto _ : state) {
    benchmark::DoNotOptimize(kernel->update(kCrc32Initial, data.data(), data.size()));
  }
}

void CrcCopyAndUpdate(benchmark::State& state, const Crc32Kernel* kernel) {
  if (kernel == nullptr) return state.SkipWithError("not on this processor");
  std::vector<uint8_t> source(static_cast<size_t>(state.range(0)), 1);
  std::vector<uint8_t> destination(source.size());
  for (auto _ : state) {
    uint32_t crc = kCrc32Initial;
    benchmark::DoNotOptimize(
        kernel->copy_and_update(crc, destination.data(), source.data(), source.size()));
    benchmark::DoNotOptimize(crc);
  }
}

void Emit(benchmark::State& state, uint8_t bth_opcode, bool ipv6) {
  const FrameBuilder builder = BuilderFor(ipv6);
  TransportHeaders headers = HeadersOf(bth_opcode);
  const std::vector<uint8_t> payload(static_cast<size_t>(state.range(0)), 1);
  const PayloadPiece piece{payload.data(), payload.size()};
  std::vector<uint8_t> frame(kMaxFrameBytes);
  for (auto _ : state) {
    ++headers.psn;
    benchmark::DoNotOptimize(builder.Emit(headers, {&piece, 1}, frame));
    benchmark::ClobberMemory();
  }
}

void Parse(benchmark::State& state, uint8_t bth_opcode, bool ipv6) {
  const std::vector<uint8_t> payload(static_cast<size_t>(state.range(0)), 1);
  const PayloadPiece piece{payload.data(), payload.size()};
  std::vector<uint8_t> frame(kMaxFrameBytes);
  frame.resize(BuilderFor(ipv6).Emit(HeadersOf(bth_opcode), {&piece, 1}, frame));
  for (auto _ : state) {
    Packet packet;
    if (ParseFrame(frame, packet) != DropReason::kNone) return state.SkipWithError("dropped");
    benchmark::DoNotOptimize(packet);
  }
}

BENCHMARK_CAPTURE(CrcUpdate, portable, &PortableCrc32Kernel())->Arg(64)->Arg(4096);
BENCHMARK_CAPTURE(CrcUpdate, pclmul, PclmulCrc32Kernel())->Arg(64)->Arg(4096);
BENCHMARK_CAPTURE(CrcUpdate, avx512, Avx512Crc32Kernel())->Arg(3)->Arg(12)->Arg(64)->Arg(4096);
BENCHMARK_CAPTURE(CrcCopyAndUpdate, portable, &PortableCrc32Kernel())->Arg(64)->Arg(4096);
BENCHMARK_CAPTURE(CrcCopyAndUpdate, pclmul, PclmulCrc32Kernel())->Arg(64)->Arg(4096);
BENCHMARK_CAPTURE(CrcCopyAndUpdate, avx512, Avx512Crc32Kernel())->Arg(2)->Arg(64)->Arg(4096);
BENCHMARK_CAPTURE(Emit, send_only_ipv4, kSendOnly, false)->Arg(2)->Arg(64)->Arg(1024)->Arg(4096);
BENCHMARK_CAPTURE(Emit, write_only_ipv4, kWriteOnly, false)->Arg(64)->Arg(4096);
BENCHMARK_CAPTURE(Emit, write_middle_ipv6, kWriteMiddle, true)->Arg(64)->Arg(4096);
BENCHMARK_CAPTURE(Emit, acknowledge_ipv4, kAcknowledge, false)->Arg(0);
BENCHMARK_CAPTURE(Parse, send_only_ipv4, kSendOnly, false)->Arg(2)->Arg(64)->Arg(1024)->Arg(4096);
BENCHMARK_CAPTURE(Parse, write_only_ipv4, kWriteOnly, false)->Arg(64)->Arg(4096);
BENCHMARK_CAPTURE(Parse, write_middle_ipv6, kWriteMiddle, true)->Arg(64)->Arg(4096);
BENCHMARK_CAPTURE(Parse, acknowledge_ipv4, kAcknowledge, false)->Arg(0);

}  // namespace
}  // namespace uroce::transport
