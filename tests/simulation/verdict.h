#pragma once

#include <sstream>
#include <string>
#include <utility>

namespace uroce::transport::simulation {

// Its arguments one after the other, as text.
template <class... Parts>
std::string Text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// Whether a run is still right. Only the first thing that went wrong is kept: the rest follows.
class Verdict {
 public:
  template <class... Parts>
  void Fail(const Parts&... parts) {
    if (!failed()) reason_ = Text(parts...);
  }

  bool failed() const { return !reason_.empty(); }
  const std::string& reason() const { return reason_; }

 private:
  std::string reason_;
};

}  // namespace uroce::transport::simulation
