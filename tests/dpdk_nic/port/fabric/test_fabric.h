#pragma once

#include <string>

namespace uroce::nic {

// The name of a fabric without a NIC that is served: its uroced leaves when this process has ended,
// however it does.
const std::string& TestFabric();

}  // namespace uroce::nic
