#pragma once

#include <cstdint>
#include <span>

namespace uroce::transport::simulation {

// Bytes of Ethernet, IP and UDP headers before the BTH of a RoCEv2 frame; 0 if it is none.
size_t NetworkHeaderBytes(std::span<const uint8_t> frame);

// The ICRC of a RoCEv2 frame, computed bit by bit from the definition (IBA CA17-22): slow, and on
// purpose not the transport's, so that it can judge the transport's.
uint32_t ReferenceIcrc(std::span<const uint8_t> frame);

// Puts a right ICRC at the end of a frame that was tampered with.
void Reseal(std::span<uint8_t> frame);

}  // namespace uroce::transport::simulation
