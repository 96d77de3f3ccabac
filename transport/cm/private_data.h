#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "transport/cm/parameters.h"

namespace uroce::transport::cm {

// Copies a user's bytes into the field of a message; false if they do not fit.
template <size_t kBytes>
bool Put(Bytes bytes, std::array<uint8_t, kBytes>& field) {
  if (bytes.size() > kBytes) return false;
  std::copy(bytes.begin(), bytes.end(), field.begin());
  return true;
}

}  // namespace uroce::transport::cm
