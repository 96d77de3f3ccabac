#include "transport/qp/credits.h"

#include <algorithm>
#include <array>

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
  const auto above = std::upper_bound(kCredits.begin(), kCredits.end(), requests);
  return static_cast<uint8_t>(above - kCredits.begin() - 1);
}

std::optional<uint32_t> DecodeCredits(uint8_t code) {
  if (code >= kCredits.size()) return std::nullopt;
  return kCredits[code];
}

}  // namespace uroce::transport
