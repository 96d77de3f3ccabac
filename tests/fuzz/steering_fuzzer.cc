// The kernel runs the steering program over any datagram from the network. The input says which
// blocks of QPNs have which sockets; the rest is a datagram. The program is interpreted here by the
// kernel's rules (linux/filter.h, Documentation/networking/filter.rst). Checks: the kernel would
// accept the program, it ends, and it chooses the socket of the block for any datagram of any
// length.
#include <linux/bpf_common.h>
#include <linux/filter.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <vector>

#include "dpdk_nic/port/udp/steering_program.h"
#include "tests/fuzz/require.h"
#include "transport/route.h"

namespace uroce::nic {
namespace {

constexpr size_t kOptionBytes = 8;
constexpr size_t kQpnAt = 5;          // of a BTH
constexpr size_t kShortestBytes = 7;  // up to the part of the QPN that names the block

// The steered blocks and their sockets.
std::vector<SteeredBlock> BlocksOf(const uint8_t* options) {
  uint16_t numbers[4];
  std::memcpy(numbers, options, sizeof numbers);
  const uint32_t count = numbers[0] % (transport::kQpnBlocks + 1);
  const uint32_t step = numbers[1] | 1u;  // odd, so that every block occurs once
  std::vector<SteeredBlock> blocks;
  for (uint32_t i = 0; i < count; ++i) {
    blocks.push_back({.block = (numbers[2] + i * step) % transport::kQpnBlocks,
                      .index = (numbers[3] + i) & 0xffff});
  }
  return blocks;
}

// Returns the program's result for the packet: the index of a socket.
uint32_t Interpret(std::span<const sock_filter> program, std::span<const uint8_t> packet) {
  uint32_t accumulator = 0;
  // Jumps lead forward only, so the program ends.
  for (size_t at = 0; at < program.size();) {
    const sock_filter& instruction = program[at++];
    switch (instruction.code) {
      case BPF_LD | BPF_H | BPF_ABS:
        if (packet.size() < size_t{instruction.k} + 2) return 0;
        accumulator = uint32_t{packet[instruction.k]} << 8 | packet[instruction.k + 1];
        break;
      case BPF_ALU | BPF_RSH | BPF_K:
        UROCE_REQUIRE(instruction.k < 32);
        accumulator >>= instruction.k;
        break;
      case BPF_JMP | BPF_JA:
        at += instruction.k;
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        at += accumulator == instruction.k ? instruction.jt : instruction.jf;
        break;
      case BPF_JMP | BPF_JGE | BPF_K:
        at += accumulator >= instruction.k ? instruction.jt : instruction.jf;
        break;
      case BPF_RET | BPF_K:
        return instruction.k;
      default:
        UROCE_REQUIRE(false && "an instruction that the program has no use for");
    }
  }
  UROCE_REQUIRE(false && "the program ends without an answer");
  return 0;
}

// The index of the socket that must get the datagram.
uint32_t Expected(const std::map<uint32_t, uint32_t>& index_of_block,
                  std::span<const uint8_t> datagram) {
  if (datagram.size() < kShortestBytes) return 0;
  uint32_t qpn = 0;
  for (size_t i = 0; i < 3; ++i) {
    qpn = qpn << 8 | (kQpnAt + i < datagram.size() ? datagram[kQpnAt + i] : 0);
  }
  const auto found = index_of_block.find(transport::BlockOf(transport::Qpn{qpn}));
  return found == index_of_block.end() ? 0 : found->second;
}

void Run(std::span<const uint8_t> input) {
  if (input.size() < kOptionBytes) return;
  const std::vector<SteeredBlock> blocks = BlocksOf(input.data());
  std::map<uint32_t, uint32_t> index_of_block;
  for (const SteeredBlock& steered : blocks) index_of_block[steered.block] = steered.index;
  const std::vector<sock_filter> program = MakeSteeringProgram(blocks);
  UROCE_REQUIRE(!program.empty() && program.size() <= BPF_MAXINSNS);

  std::vector<uint8_t> datagram(input.begin() + kOptionBytes, input.end());
  UROCE_REQUIRE(Interpret(program, datagram) == Expected(index_of_block, datagram));
  // Shorter datagrams, and those for each block's first and last QPN.
  for (size_t bytes = 0; bytes < std::min(datagram.size(), kShortestBytes); ++bytes) {
    UROCE_REQUIRE(Interpret(program, std::span(datagram).first(bytes)) == 0);
  }
  datagram.resize(std::max(datagram.size(), kQpnAt + 3));
  for (uint32_t block = 0; block < transport::kQpnBlocks; ++block) {
    for (const uint32_t offset : {0u, transport::kMaxQps - 1}) {
      const uint32_t qpn = block * transport::kMaxQps + offset;
      for (size_t i = 0; i < 3; ++i)
        datagram[kQpnAt + i] = static_cast<uint8_t>(qpn >> 8 * (2 - i));
      UROCE_REQUIRE(Interpret(program, datagram) == Expected(index_of_block, datagram));
    }
  }
}

}  // namespace
}  // namespace uroce::nic

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uroce::nic::Run({data, size});
  return 0;
}
