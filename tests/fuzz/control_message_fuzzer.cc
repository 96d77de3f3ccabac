// The other end of a control connection can do anything. The first record chooses the half under
// test: a MessageChannel whose peer sends and reads anything, or a ControlClient with a uroced that
// comes and goes. The other records are operations.
//
// Invariants: messages arrive as they were sent, with their descriptors, in order; a connection
// ends when it must and never without a cause; a message accepted for sending arrives; a client
// keeps its block and attaches again after anything but a refusal; no descriptor leaks.
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
