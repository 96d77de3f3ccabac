#pragma once

#include <string>
#include <utility>
#include <variant>

namespace uroce::nic {

// Why set-up failed: one sentence without a final full stop, which says what to do.
struct Error {
  std::string sentence;
};

// The result of a set-up function: a value, or why there is none.
template <class T>
class [[nodiscard]] ErrorOr {
 public:
  ErrorOr(T content) : content_(std::move(content)) {}  // NOLINT: meant to convert
  ErrorOr(Error error) : content_(std::move(error)) {}  // NOLINT: meant to convert

  bool ok() const { return std::holds_alternative<T>(content_); }
  const T& value() const& { return std::get<T>(content_); }
  T&& value() && { return std::get<T>(std::move(content_)); }
  const std::string& error() const { return std::get<Error>(content_).sentence; }

 private:
  std::variant<T, Error> content_;
};

}  // namespace uroce::nic
