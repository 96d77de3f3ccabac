#pragma once

#include <string>

namespace uroce::nic {

// The name of a fabric without a NIC, whose uroced runs and ends when this process has ended,
// however it ends.
const std::string& TestFabric();

}  // namespace uroce::nic
