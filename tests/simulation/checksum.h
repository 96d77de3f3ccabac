#pragma once

#include <cstdint>
#include <span>

namespace uroce::transport::simulation {

// Bytes of Ethernet, IP and UDP headers before the BTH; 0 if the frame is not RoCEv2.
size_t NetworkHeaderBytes(std::span<const uint8_t> frame);

// The ICRC of a RoCEv2 frame, computed bit by bit from the definition (IBA CA17-22). It is slow and
// shares no code with the transport, so that it can judge the transport's.
uint32_t ReferenceIcrc(std::span<const uint8_t> frame);

// Puts the right ICRC at the end of a frame that was tampered with.
void Reseal(std::span<uint8_t> frame);

}  // namespace uroce::transport::simulation
