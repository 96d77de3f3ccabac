// Lets libFuzzer mutate an input that is a sequence of records: by whole records, or within one.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>

#include "tests/fuzz/record.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace uroce::transport {
namespace {

using Random = std::minstd_rand;

size_t Index(Random& random, size_t count) {
  return std::uniform_int_distribution<size_t>(0, count - 1)(random);
}

uint8_t* At(uint8_t* data, size_t index) { return data + index * kRecordBytes; }

// Makes room at `index` and returns it.
uint8_t* Insert(uint8_t* data, size_t index, size_t count) {
  std::memmove(At(data, index + 1), At(data, index), (count - index) * kRecordBytes);
  return At(data, index);
}

// Returns the new number of records.
size_t Mutate(uint8_t* data, size_t count, size_t max_count, Random& random) {
  const size_t chosen = Index(random, count);
  const bool has_room = count < max_count;
  switch (Index(random, 8)) {
    case 0:  // a copy of a record behind another
      if (!has_room) return count;
      std::memmove(Insert(data, chosen, count), At(data, Index(random, count)), kRecordBytes);
      return count + 1;
    case 1:  // a random record
      if (!has_room) return count;
      Insert(data, chosen, count);
      std::generate_n(At(data, chosen), kRecordBytes,
                      [&random] { return static_cast<uint8_t>(random() >> 8); });
      return count + 1;
    case 2:
      if (count == 1) return count;
      std::memmove(At(data, chosen), At(data, chosen + 1), (count - chosen - 1) * kRecordBytes);
      return count - 1;
    case 3:
      std::swap_ranges(At(data, chosen), At(data, chosen + 1), At(data, Index(random, count)));
      return count;
    default: {
      const size_t bytes = LLVMFuzzerMutate(At(data, chosen), kRecordBytes, kRecordBytes);
      std::fill(At(data, chosen) + bytes, At(data, chosen + 1), uint8_t{0});
      return count;
    }
  }
}

}  // namespace
}  // namespace uroce::transport

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  using uroce::transport::kRecordBytes;
  if (max_size < kRecordBytes) return LLVMFuzzerMutate(data, size, max_size);
  const size_t count = std::max<size_t>((size + kRecordBytes - 1) / kRecordBytes, 1);
  const size_t max_count = max_size / kRecordBytes;
  if (count > max_count) return LLVMFuzzerMutate(data, size, max_size);
  std::fill(data + std::min(size, count * kRecordBytes), data + count * kRecordBytes, uint8_t{0});
  uroce::transport::Random random(seed);
  return kRecordBytes * uroce::transport::Mutate(data, count, max_count, random);
}
