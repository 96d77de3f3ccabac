#include "tests/simulation/trace.h"

#include <cstring>

#include "tests/simulation/describe.h"

namespace uroce::transport::simulation {

void Trace::Mix(uint64_t word) {
  hash_ = (hash_ ^ word) * 0x9e3779b97f4a7c15;
  hash_ ^= hash_ >> 32;
}

void Trace::Mix(std::span<const uint8_t> bytes) {
  Mix(bytes.size());
  while (!bytes.empty()) {
    uint64_t word = 0;
    const size_t length = bytes.size() < 8 ? bytes.size() : 8;
    std::memcpy(&word, bytes.data(), length);
    Mix(word);
    bytes = bytes.subspan(length);
  }
}

void Trace::OnFrame(Time now, const char* what, int host, std::span<const uint8_t> frame) {
  Mix(static_cast<uint64_t>(now.ns));
  Mix(static_cast<uint64_t>(host));
  Mix(frame);
  if (out_ == nullptr) return;
  std::fprintf(out_, "%12.3f us  host %d  %-9s %s\n", static_cast<double>(now.ns) / 1e3, host, what,
               DescribeFrame(frame).c_str());
}

void Trace::OnEvent(Time now, const char* what, std::initializer_list<Field> fields) {
  Mix(static_cast<uint64_t>(now.ns));
  for (const auto& [name, value] : fields) Mix(value);
  if (out_ == nullptr) return;
  std::fprintf(out_, "%12.3f us  %s", static_cast<double>(now.ns) / 1e3, what);
  for (const auto& [name, value] : fields) {
    std::fprintf(out_, " %s=%llu", name, static_cast<unsigned long long>(value));
  }
  std::fputc('\n', out_);
}

}  // namespace uroce::transport::simulation
