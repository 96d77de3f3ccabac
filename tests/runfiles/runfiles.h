#pragma once

#include <string>

namespace uroce {

// Where a file of the workspace is that the running program names in its `data`: under
// `bazel test`, `bazel run`, and when it is started as bazel-bin/... .
std::string Runfile(const std::string& path);

}  // namespace uroce
