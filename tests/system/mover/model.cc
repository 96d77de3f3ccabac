#include "tests/system/mover/model.h"

#include <algorithm>
#include <cstring>

#include "tests/system/mover/random.h"

namespace mover {
namespace {

std::vector<uint8_t> Gather(const std::vector<uint8_t>& arena, const std::vector<Piece>& pieces) {
  std::vector<uint8_t> bytes;
  for (const Piece& piece : pieces) {
    const auto start = arena.begin() + piece.offset;
    bytes.insert(bytes.end(), start, start + piece.length);
  }
  return bytes;
}

// The pieces may be longer than `count`.
void Scatter(const uint8_t* bytes, size_t count, const std::vector<Piece>& pieces, uint8_t* arena) {
  for (const Piece& piece : pieces) {
    const size_t part = std::min<size_t>(piece.length, count);
    if (part == 0) continue;
    std::memcpy(arena + piece.offset, bytes, part);
    bytes += part;
    count -= part;
  }
}

}  // namespace

Model::Model(const RoundPlan& plan, uint32_t arena_bytes)
    : local_(arena_bytes), remote_(arena_bytes) {
  FillWithPattern(local_, plan.local_seed);
  FillWithPattern(remote_, plan.remote_seed);
  for (const Operation& operation : plan.operations) Apply(operation);
}

void Model::Apply(const Operation& operation) {
  if (IsAtomic(operation.kind)) return ApplyAtomic(operation);
  if (IsSend(operation.kind)) {
    const std::vector<uint8_t> message = Gather(local_, operation.local);
    Scatter(message.data(), message.size(), operation.receive, remote_.data());
  } else if (IsWrite(operation.kind)) {
    const std::vector<uint8_t> message = Gather(local_, operation.local);
    std::copy(message.begin(), message.end(), remote_.begin() + operation.remote_offset);
  } else if (operation.kind == Kind::kRead) {
    Scatter(remote_.data() + operation.remote_offset, operation.length, operation.local,
            local_.data());
  }
  if (operation.is_inline) Scribble(operation.local, operation.scribble_seed, local_.data());
}

void Model::ApplyAtomic(const Operation& operation) {
  uint8_t* cell = remote_.data() + operation.remote_offset;
  uint64_t value;
  std::memcpy(&value, cell, kAtomicBytes);
  Scatter(cell, kAtomicBytes, operation.local, local_.data());
  if (operation.kind == Kind::kFetchAdd) {
    value += operation.compare_or_add;
  } else if (value == operation.compare_or_add) {
    value = operation.swap;
  }
  std::memcpy(cell, &value, kAtomicBytes);
}

void Scribble(const std::vector<Piece>& pieces, uint64_t seed, uint8_t* arena) {
  size_t length = 0;
  for (const Piece& piece : pieces) length += piece.length;
  std::vector<uint8_t> bytes(length);
  FillWithPattern(bytes, seed);
  Scatter(bytes.data(), bytes.size(), pieces, arena);
}

}  // namespace mover
