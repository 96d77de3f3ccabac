#pragma once

#include <sstream>
#include <string>
#include <utility>

namespace uroce::transport::simulation {

// Its arguments as text, concatenated.
template <class... Parts>
std::string Text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// Whether a run is still right. Keeps only the first failure: later ones follow from it.
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
