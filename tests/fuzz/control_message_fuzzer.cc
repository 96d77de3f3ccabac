// Anything that the other end of a control connection can do. The first record says which half it
// is about: a MessageChannel with a peer that says and reads anything, or a ControlClient with a
// uroced that comes and goes. The others are operations.
//
// What must hold: what is received is what was said, with its descriptors, in order; a connection
// ends when it has to and never without a cause; what was accepted for sending arrives; a client
// keeps its block and attaches again whatever happened, but for a refusal; no descriptor is lost.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/fuzz/control_channel_fuzz.h"
#include "tests/fuzz/control_client_fuzz.h"
#include "tests/fuzz/record.h"
#include "tests/fuzz/require.h"

namespace uroce::nic::control {
namespace {

template <class Fuzz>
void Run(std::span<const uint8_t> input) {
  Fuzz fuzz;
  transport::RunSteps(fuzz, input);
}

}  // namespace
}  // namespace uroce::nic::control

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace uroce::nic::control;
  if (size == 0) return 0;
  const std::vector<bool> before = OpenDescriptors();
  const size_t first = std::min(size, uroce::transport::kRecordBytes);
  const std::span<const uint8_t> operations(data + first, size - first);
  if (data[0] % 2 == 0) {
    Run<ControlChannelFuzz>(operations);
  } else {
    Run<ControlClientFuzz>(operations);
  }
  UROCE_REQUIRE(OpenDescriptors() == before);
  return 0;
}
