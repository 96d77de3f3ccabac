#pragma once

#include <netinet/in.h>

namespace churn {

// Accepts every connection, checks its message and answers it. Prints "listening" first; does not
// return.
[[noreturn]] void RunServer(const sockaddr_in& address);

}  // namespace churn
