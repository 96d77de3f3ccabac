#pragma once

#include <string>

namespace uroce {

// The path of a file of the workspace that the running program has in its `data`: under `bazel
// test`, `bazel run`, and when it is started as bazel-bin/... .
std::string Runfile(const std::string& path);

}  // namespace uroce
