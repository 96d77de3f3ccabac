#pragma once

#include <cstdint>
#include <optional>

#include "transport/psn.h"

namespace uroce::transport {

// End-to-end credits (IBA 9.7.7.2): how many receive requests the responder has, as the 5-bit code
// of an ACK's syndrome.

// The code of the largest number in the table that is not above `requests`.
uint8_t EncodeCredits(uint32_t requests);

// nullopt for code 31: the responder does not say.
std::optional<uint32_t> DecodeCredits(uint8_t code);

// SSNs and MSNs number the requests of a connection; 24 bits, ordered like PSNs.
constexpr bool IsSsnAfter(uint32_t ssn, uint32_t other) { return Psn(ssn).IsAfter(Psn(other)); }

}  // namespace uroce::transport
