#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace uroce::transport {

// A fuzzer's input is a sequence of records of one length, each one operation. A mutation of one
// record leaves the meaning of all later ones unchanged.
inline constexpr size_t kRecordBytes = 22;

// Hands out the bytes of a record as the numbers that an operation needs; zeros after the last
// byte. Never put two calls into an expression that leaves their order open: compilers differ.
class Record {
 public:
  explicit Record(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  uint8_t Byte() {
    const uint8_t byte = bytes_.empty() ? 0 : bytes_.front();
    if (!bytes_.empty()) bytes_ = bytes_.subspan(1);
    return byte;
  }
  uint16_t Word() {
    const uint8_t high = Byte();
    return static_cast<uint16_t>(high << 8 | Byte());
  }
  uint32_t DoubleWord() {
    const uint32_t high = Word();
    return high << 16 | Word();
  }
  bool Flag() { return (Byte() & 1) != 0; }
  // 0 .. limit - 1; `limit` is at most 256.
  uint32_t Below(uint32_t limit) { return Byte() % limit; }
  // -64 .. 63: often 0, seldom far from it.
  int32_t Near() {
    const uint8_t byte = Byte();
    if (byte < 160) return 0;
    if (byte < 192) return (byte & 15) - 8;
    return byte - 192 - (byte & 1) * 64;
  }
  template <class T, size_t kCount>
  const T& Pick(const T (&choices)[kCount]) {
    return choices[Below(kCount)];
  }

 private:
  std::span<const uint8_t> bytes_;
};

// Calls `operation` with each record of `input`; the last one may be short.
template <class Operation>
void ForEachRecord(std::span<const uint8_t> input, const Operation& operation) {
  while (!input.empty()) {
    const size_t bytes = std::min(kRecordBytes, input.size());
    operation(Record(input.first(bytes)));
    input = input.subspan(bytes);
  }
}

// Each record is one step.
template <class Fuzz>
void RunSteps(Fuzz& fuzz, std::span<const uint8_t> input) {
  ForEachRecord(input, [&fuzz](Record record) { fuzz.Step(record); });
  fuzz.Finish();
}

// The first record sets up the object, the others are its steps.
template <class Fuzz>
void SetUpAndRunSteps(std::span<const uint8_t> input) {
  if (input.size() < kRecordBytes) return;
  Fuzz fuzz(Record(input.first(kRecordBytes)));
  RunSteps(fuzz, input.subspan(kRecordBytes));
}

}  // namespace uroce::transport
