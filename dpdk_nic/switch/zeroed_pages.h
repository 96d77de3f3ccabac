#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace uroce::nic {

// An array that starts as zeros and costs no memory where it was never written. Its destructor
// returns the memory to the system, so that a process that ends leaves nothing behind in uroced.
template <class T>
class ZeroedPages {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  ZeroedPages() = default;
  // Throws std::bad_alloc.
  explicit ZeroedPages(size_t count) : bytes_(count * sizeof(T)) {
    void* base = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<T*>(base);
  }
  ZeroedPages(ZeroedPages&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), bytes_(other.bytes_) {}
  ZeroedPages& operator=(ZeroedPages&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~ZeroedPages() {
    if (base_ != nullptr) munmap(base_, bytes_);
  }

  explicit operator bool() const { return base_ != nullptr; }
  T& operator[](size_t index) { return base_[index]; }
  const T& operator[](size_t index) const { return base_[index]; }

 private:
  T* base_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace uroce::nic
