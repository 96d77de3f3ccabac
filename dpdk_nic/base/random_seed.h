#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace uroce::nic {

// Numbers that no other process can guess.
using RandomSeed = std::array<uint64_t, 4>;

// From the kernel's generator. nullopt with errno, for example if a sandbox forbids getrandom(2).
std::optional<RandomSeed> NewRandomSeed();
// Throws std::system_error instead of returning nullopt.
RandomSeed NewRandomSeedOrThrow();

}  // namespace uroce::nic
