#pragma once

#include <cstdint>

namespace uroce::transport {

// The guarantees that a FLUSH asks for (IBA A19.4.1.1). The bits are those of enum
// ibv_placement_type and of the FETH; several may be set.
struct Placement {
  static constexpr uint8_t kGlobal = 1 << 0;      // all processors and devices of the host see it
  static constexpr uint8_t kPersistent = 1 << 1;  // it survives a loss of power
};

// The memory that a FLUSH covers (IBA A19.4.1.2). The values are those of enum
// ibv_selectivity_level and of the FETH.
enum class Selectivity : uint8_t { kRange = 0, kRegion = 1 };

}  // namespace uroce::transport
