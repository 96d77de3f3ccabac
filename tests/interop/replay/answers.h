#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "tests/interop/replay/capture.h"
#include "transport/psn.h"

namespace uroce::transport::interop {

// A response packet as text that is independent of its sender: PSNs count from the flow's first
// request, and the number of receive requests of the responder is left out.
struct Answer {
  uint32_t frame = 0;  // number in the capture: of rxe's answer, or of the request for ours
  std::string text;
  std::vector<uint8_t> payload;

  Answer(uint32_t number, const Packet& packet, Psn first_psn);
};

inline const std::string kNothing = "nothing";

struct Difference {
  uint32_t frame = 0;  // rxe's answer, or our request's number if rxe has sent nothing
  std::string ours;
  std::string theirs;

  bool operator==(const Difference&) const = default;
};

// Used by GoogleTest's messages.
std::ostream& operator<<(std::ostream& out, const Difference& difference);

// The replacements that turn `theirs` into `ours`, in order.
std::vector<Difference> Compare(const std::vector<Answer>& ours, const std::vector<Answer>& theirs);

}  // namespace uroce::transport::interop
