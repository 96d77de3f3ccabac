#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "dpdk_nic/base/cancellation_guard.h"

namespace uroce::verbs {

// The boundary between C++ and libibverbs: no exception may unwind into C. The set-up verbs run
// inside one of these wrappers; the data path throws nothing.

// The errno value that describes the exception being handled best.
inline int ErrnoOfException() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  } catch (const std::system_error& error) {
    return error.code().value() > 0 ? error.code().value() : EIO;
  } catch (...) {
    return EIO;
  }
}

// The number in a variable of a C enumeration. A C program can store any number there, but C++ may
// assume that it is one of the enumerators, so look at it as a number first.
template <class Enum>
uint32_t RawValue(const Enum& value) {
  static_assert(sizeof value == sizeof(uint32_t));
  uint32_t raw;
  std::memcpy(&raw, &value, sizeof raw);
  return raw;
}

// For verbs that return 0 or an errno value, which programs read in errno as well.
template <class F>
int SettingErrno(F&& f) {
  const int error = std::forward<F>(f)();
  if (error != 0) [[unlikely]]
    errno = error;
  return error;
}

// The same for verbs that may throw.
template <class F>
int ReturningErrno(F&& f) noexcept {
  const nic::CancellationGuard guard;  // pthread_cancel() unwinds, too
  return SettingErrno([&] {
    try {
      return std::forward<F>(f)();
    } catch (...) {
      return ErrnoOfException();
    }
  });
}

// For verbs that return an object, or null with errno set. `f` returns the errno value and sets its
// argument on success.
template <class Object, class F>
Object* ReturningObject(F&& f) noexcept {
  Object* object = nullptr;
  const int error = ReturningErrno([&] { return std::forward<F>(f)(object); });
  return error == 0 ? object : nullptr;
}

}  // namespace uroce::verbs
