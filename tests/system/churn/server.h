#pragma once

#include <netinet/in.h>

namespace churn {

// Accepts whoever comes, checks the message of each and answers it. Prints "listening" first; does
// not return.
[[noreturn]] void RunServer(const sockaddr_in& address);

}  // namespace churn
