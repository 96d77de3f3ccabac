#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "tests/interop/replay/capture.h"
#include "transport/psn.h"

namespace uroce::transport::interop {

// A response packet in words that do not depend on who sent it: PSNs count from the first request
// of the flow, and how many receive requests the responder has is left out.
struct Answer {
  uint32_t frame = 0;  // in the capture: the answer, or the request that we answer
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

// For GoogleTest's messages.
std::ostream& operator<<(std::ostream& out, const Difference& difference);

// What has to be replaced in `theirs` to make it `ours`, in order.
std::vector<Difference> Compare(const std::vector<Answer>& ours, const std::vector<Answer>& theirs);

}  // namespace uroce::transport::interop
