#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

namespace uroce::transport {

struct FreeZeroedArray {
  void operator()(void* memory) const { std::free(memory); }
};

// An array of objects that may start as zero bytes. Pages of a large array take no memory before
// they are used: a program that asks for the longest queue pays for what it posts.
template <class T>
using ZeroedArray = std::unique_ptr<T[], FreeZeroedArray>;

// Throws std::bad_alloc.
template <class T>
ZeroedArray<T> MakeZeroedArray(size_t count) {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= alignof(std::max_align_t));
  void* const memory = std::calloc(count == 0 ? 1 : count, sizeof(T));
  if (memory == nullptr) throw std::bad_alloc();
  return ZeroedArray<T>(static_cast<T*>(memory));
}

}  // namespace uroce::transport
