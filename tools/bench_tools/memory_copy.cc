// How fast this machine copies memory on one core: "<hot GB/s> <cold GB/s>" (10^9 bytes).
//
// Hot: one block of 64 KiB to another, again and again. Cold: blocks of 64 KiB through 64 MiB.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

constexpr size_t kBlockBytes = 64 << 10;
constexpr size_t kColdBytes = 64 << 20;
constexpr size_t kCopiedBytes = size_t{2} << 30;

// Copies kCopiedBytes, block by block, through buffers of `size` bytes.
double GigabytesPerSecond(size_t size) {
  using Clock = std::chrono::steady_clock;
  const std::vector<char> source(size, 1);
  std::vector<char> destination(size, 2);
  const Clock::time_point start = Clock::now();
  for (size_t copied = 0; copied < kCopiedBytes; copied += kBlockBytes) {
    const size_t offset = copied % size;
    std::memcpy(destination.data() + offset, source.data() + offset, kBlockBytes);
    // The compiler must not see that the same bytes are copied over and over.
    asm volatile("" : : "r"(destination.data()) : "memory");
  }
  const std::chrono::duration<double> elapsed = Clock::now() - start;
  return static_cast<double>(kCopiedBytes) / elapsed.count() / 1e9;
}

}  // namespace

int main() {
  std::printf("%.1f %.1f\n", GigabytesPerSecond(kBlockBytes), GigabytesPerSecond(kColdBytes));
}
