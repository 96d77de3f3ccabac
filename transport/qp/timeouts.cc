#include "transport/qp/timeouts.h"

#include <array>

namespace uroce::transport {
namespace {

// IBA 9.7.5.2.8, in microseconds. Codes 6 .. 21 are often misprinted on the web (as if the column
// of long delays came first); this order is the one that devices speak on the wire.
constexpr std::array<int64_t, kMaxRnrTimerCode + 1> kRnrDelayUs = {
    655'360, 10,     20,     30,      40,      60,      80,      120,     //
    160,     240,    320,    480,     640,     960,     1'280,   1'920,   //
    2'560,   3'840,  5'120,  7'680,   10'240,  15'360,  20'480,  30'720,  //
    40'960,  61'440, 81'920, 122'880, 163'840, 245'760, 327'680, 491'520,
};

}  // namespace

Duration RnrDelay(uint8_t code) { return Microseconds(kRnrDelayUs[code & kMaxRnrTimerCode]); }

}  // namespace uroce::transport
