#include "dpdk_nic/port/udp/steering_program.h"

#include <algorithm>
#include <bit>
#include <span>

#include "transport/limits.h"

namespace uroce::nic {
namespace {

// The upper 16 bits of the destination QPN in the BTH, which a datagram begins with.
constexpr uint32_t kQpnOffset = 5;
constexpr uint32_t kBlockShift = std::countr_zero(transport::kMaxQps) - 8u;
static_assert(std::has_single_bit(transport::kMaxQps) && transport::kMaxQps >= 256);

// Up to so many blocks are compared one after the other; more are halved first.
constexpr size_t kFew = 8;

// Appends the choice among `blocks`. The program has the block of the datagram in the accumulator.
void Choose(std::span<const SteeredBlock> blocks, uint32_t others,
            std::vector<sock_filter>* program) {
  if (blocks.size() <= kFew) {
    for (const SteeredBlock& steered : blocks) {
      program->push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, steered.block, 0, 1));
      program->push_back(BPF_STMT(BPF_RET | BPF_K, steered.index));
    }
    program->push_back(BPF_STMT(BPF_RET | BPF_K, others));
    return;
  }
  const size_t half = blocks.size() / 2;
  // A conditional jump reaches 255 instructions only, JA any.
  program->push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, blocks[half].block, 0, 1));
  const size_t jump = program->size();
  program->push_back(BPF_STMT(BPF_JMP | BPF_JA, 0));
  Choose(blocks.first(half), others, program);
  (*program)[jump].k = static_cast<uint32_t>(program->size() - jump - 1);
  Choose(blocks.subspan(half), others, program);
}

}  // namespace

std::vector<sock_filter> MakeSteeringProgram(std::vector<SteeredBlock> blocks, uint32_t others) {
  std::sort(blocks.begin(), blocks.end());
  std::vector<sock_filter> program = {
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, kQpnOffset),  // ends with 0 if there is no such byte
      BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, kBlockShift),
  };
  Choose(blocks, others, &program);
  return program;
}

}  // namespace uroce::nic
