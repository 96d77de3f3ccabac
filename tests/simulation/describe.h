#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "transport/completion.h"

namespace uroce::transport::simulation {

// One line about a frame, for a trace.
std::string DescribeFrame(std::span<const uint8_t> frame);

std::string DescribeCompletion(const Completion& completion);

}  // namespace uroce::transport::simulation
