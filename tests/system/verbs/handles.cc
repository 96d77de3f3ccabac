#include "tests/system/verbs/handles.h"

#include <cstring>
#include <stdexcept>

namespace system_test {

void Fail(const std::string& call, int error) {
  throw std::runtime_error(call + ": " + std::strerror(error));
}

}  // namespace system_test
