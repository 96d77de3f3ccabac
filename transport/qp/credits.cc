#include "transport/qp/credits.h"

#include <algorithm>
#include <array>
#include <bit>

#include "transport/wire/aeth.h"

namespace uroce::transport {
namespace {

// IBA 9.7.7.2.
constexpr std::array<uint32_t, Syndrome::kNoCreditInformation> kCredits = {
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
};

}  // namespace

uint8_t EncodeCredits(uint32_t requests) {
  if (requests < 2) return static_cast<uint8_t>(requests);
  // From 2 on the table has two numbers an octave: 2^n and 3 * 2^(n - 1).
  const uint32_t octave = static_cast<uint32_t>(std::bit_width(requests)) - 1;
  const uint32_t is_upper_half = requests >> (octave - 1) & 1;
  return static_cast<uint8_t>(std::min<size_t>(2 * octave + is_upper_half, kCredits.size() - 1));
}

std::optional<uint32_t> DecodeCredits(uint8_t code) {
  if (code >= kCredits.size()) return std::nullopt;
  return kCredits[code];
}

}  // namespace uroce::transport
